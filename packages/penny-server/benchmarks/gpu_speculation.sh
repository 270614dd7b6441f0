#!/usr/bin/env bash
# gpu_speculation.sh OUT STEP...: speculation on a GPU machine where the wheels are installed. A STEP is
#   prebuild   starts building FlashInfer's modules in the background (what a DFlash2 draft needs, then XQA's); returns at once
#   prebuilt   waits for topk and sampling, at most WAIT_S seconds (480), and says whether they are complete
#   CASE...    serves these cases at once on one GPU and reads them in turn (python speculation_cases.py lists them)
# GPU (0) is the device, PORT (8100) the first port; two calls with their own run side by side on two GPUs. BUILT names a
# folder of libraries that flashinfer_builds.py kept: they are used and not built. FEATURES (spec-guard) are more of our
# features for cases with drafts. Everything is JSON under OUT, each case's as soon as there is any.
set -uo pipefail
out=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
export FLASHINFER_WORKSPACE_BASE=${FLASHINFER_WORKSPACE_BASE:-/tmp/flashinfer} MAX_JOBS=${MAX_JOBS:-$(nproc)}
lent=$FLASHINFER_WORKSPACE_BASE/lent  # what small installations of CUDA lack; flashinfer_builds.py build fills it
export LIBRARY_PATH=${LIBRARY_PATH:+$LIBRARY_PATH:}$lent CPATH=${CPATH:+$CPATH:}$lent
export FLASHINFER_EXTRA_CUDAFLAGS=${FLASHINFER_EXTRA_CUDAFLAGS---split-compile=0}  # all cores for a file of many minutes
builds() { python3 "$here/flashinfer_builds.py" "$@"; }
case ${1:?name a step} in
  prebuild)
    [ -d "${BUILT:-}" ] && builds use "$BUILT"
    setsid nice -n 10 bash -c '
      python3 "$0" build topk sampling --jobs 2 --place &
      python3 "$0" build xqa --jobs 10 --place
      python3 "$0" build xqa --jobs 10 --pages 16 32 128 --widths 8 --place
      wait' "$here/flashinfer_builds.py" \
      > "$out/prebuild.log" 2>&1 < /dev/null &
    echo "building, pid $!; see $out/prebuild.log" ;;
  prebuilt)
    for _ in $(seq 0 5 "${WAIT_S:-480}"); do builds check topk sampling > "$out/prebuilt.json" 2> /dev/null && break; sleep 5; done
    cat "$out/prebuilt.json"
    builds check topk sampling > /dev/null 2>&1 ;;
  *)
    exec timeout --kill-after=20 "${LIMIT_S:-590}" python3 "$here/gpu_speculation.py" "$out" "$@" \
      --gpu "${GPU:-0}" --port "${PORT:-8100}" --features "${FEATURES-spec-guard}" ;;
esac
