#!/usr/bin/env bash
# gpu_train.sh DATA27 DATANEXT OUT STEP...: on a GPU machine with torch and transformers, train what penny-models ships.
# DATA27 and DATANEXT are data folders of tiny-27b and tiny-next. Steps: next (the joint training and the indexers, about
# MINUTES and two more), nextn-next and nextn-27b (three draft steps, NEXTN_MINUTES and two more), dflash (the DFlash2 draft of
# tiny-27b, DRAFT_MINUTES and two more). Weights, results and curves go to OUT/tiny-next, OUT/tiny-27b and OUT/tiny-27b-dflash2.
set -uo pipefail
data27=$1 datanext=$2 out=$3
shift 3
here=$(cd "$(dirname "$0")/../packages/penny-models" && pwd)
export PYTHONPATH=$here/src:$here/../penny-kernels/src${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
target=$here/src/penny_models/tiny/tiny-27b
train() { python3 -m penny_models.training "$@"; }
nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader
for step in "$@"; do
  echo "== $step"
  case $step in
    next) train train "$datanext" --out "$out/tiny-next" --minutes "${MINUTES:-7.5}" --batch 16 --seed 28 ;;
    nextn-next) train nextn "$datanext" "$out/tiny-next" --out "$out/tiny-next" --minutes "${NEXTN_MINUTES:-1.5}" --seed 28 ;;
    nextn-27b) train nextn "$data27" "$target" --out "$out/tiny-27b" --minutes "${NEXTN_MINUTES:-1.5}" --seed 27 ;;
    dflash) train dflash "$data27" "$target" --out "$out/tiny-27b-dflash2" --minutes "${DRAFT_MINUTES:-4}" --seed 27 ;;
    *) echo "no such step: $step" >&2; exit 2 ;;
  esac || exit 1
done
