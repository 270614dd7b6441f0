#!/usr/bin/env bash
# gpu_checkpoints.sh OUT CASE...: on a GPU machine where the wheels are installed, serve tiny checkpoints with CUDA graphs in
# bfloat16, with and without their drafts, and keep what each server says: tokens (for `same_tokens.py explain`), seams, log.
# Cases: 27b, 27b-nextn, 27b-dflash, next, next-nextn, next-frspec; 27b-nextn-adaptive and 27b-dflash-adaptive choose their
# width while they serve (one width of two for one request, the smaller for four), a graph for each. NEXT, TARGET and
# DRAFT name other checkpoint folders than the shipped ones; calls with a PORT of their own (8001) run side by side on one
# GPU. Exit code 1 if a case failed: no tokens, or a DFlash2 server whose selector is not folded into the draft's graph or whose fused KV writing is off.
set -uo pipefail
out=$1 port=${PORT:-8001} bad=0
shift
here=$(cd "$(dirname "$0")" && pwd)
penny() { python3 -c "import sys; from penny_server.cli import main; sys.argv[0] = 'penny'; main()" "$@"; }
shipped() { python3 -c "import sys; from penny_models import tiny; print(tiny.path(sys.argv[1]))" "$1"; }
said() {  # said WORDS: whether a log of the run holds them, as JSON
  if grep -qsF "$1" "$log"; then echo true; else echo false; fi
}
for case in "$@"; do
  long=0 options=(--set cuda_graph_backend_prefill=disabled)
  case $case in
    27b-nextn-adaptive) options+=(--set 'adaptive={1=[1,3],4=[1]}') ;;
    27b-dflash-adaptive) options+=(--set 'adaptive={1=[3,7],4=[3]}') ;;
  esac
  case $case in
    next*) checkpoint=${NEXT:-$(shipped tiny-next)} long=3000 ;;
    *) checkpoint=${TARGET:-$(shipped tiny-27b)} ;;
  esac
  case $case in
    27b) profile=tiny-27b options=() ;;
    27b-nextn*) profile=tiny-27b-nextn ;;
    27b-dflash*)
      profile=tiny-27b-dflash2
      options+=(--set speculative_draft_attention_backend="${DRAFT_ATTENTION:-triton}" --draft "${DRAFT:-$(shipped tiny-27b-dflash2)}") ;;
    next)
      profile=tiny-next options=()
      for key in algorithm num_steps eagle_topk num_draft_tokens; do options+=(--set "speculative_$key="); done ;;
    next-nextn) profile=tiny-next ;;
    next-frspec) profile=tiny-next-frspec ;;
    *) echo "no such case: $case" >&2; exit 2 ;;
  esac
  echo "== $case"
  runs=/tmp/runs-$case-$port && rm -rf "$runs" && mkdir -p "$runs"
  began=$SECONDS
  options+=(--set nccl_port=$((port + 5)))  # servers that start together may find the same one free
  serve=(penny serve "$profile" --device cuda --port "$port" --model "$checkpoint" "${options[@]}")
  "${serve[@]}" --log-dir "$runs" > "$runs/screen" 2>&1 &
  server=$!
  for _ in $(seq "${READY_S:-200}"); do grep -q '^curl' "$runs/screen" && break; kill -0 $server 2>/dev/null || break; sleep 1; done
  echo "screen after $((SECONDS - began)) s:"; tail -n 25 "$runs/screen" | cut -c1-300
  log=$(find "$runs" -name server.log | head -n 1)
  [ -n "$log" ] && penny seams --run-dir "$(dirname "$log")" --json > "$out/seams-$case.json"
  if ! grep -q '^curl' "$runs/screen"; then  # an assertion of the profile may be wrong; see whether the server serves
    [ -n "$log" ] && grep -v 'it/s' "$log" | tail -n 40 | cut -c1-300
    penny stop --log-dir "$runs"; wait $server  # it may still be starting, and hold the port
    log=$runs/plain.log
    (eval "exec env $("${serve[@]}" --dry-run)") > "$log" 2>&1 &
    server=$!
    for _ in $(seq 100); do sleep 1; curl -sf "http://127.0.0.1:$port/health" > /dev/null && break; kill -0 $server 2>/dev/null || break; done
    echo "started without the supervisor"; tail -n 5 "$log" | cut -c1-300
  fi
  python3 "$here/same_tokens.py" collect --url "http://127.0.0.1:$port" --checkpoint "$checkpoint" --long $long --out "$out/asked-$case.json" || bad=1
  curl -s -m 20 "http://127.0.0.1:$port/server_info" | python3 -c "import json, sys; print({k: v for k, v in json.load(sys.stdin).items() if 'accept' in k})"
  curl -s -m 20 "http://127.0.0.1:$port/metrics/" | grep '^penny_spec' > "$out/metrics-$case.txt"
  if [[ $case = 27b-dflash* ]]; then
    folded=$(said "DFLASH selector decode folded into the draft cuda graph") fused=$(said "DFLASH fused KV materialization enabled")
    echo "{\"selector folded\": $folded, \"fused KV active\": $fused}" | tee "$out/said-$case.json"
    [ "$folded $fused" = "true true" ] || { echo "FAIL: a DFlash2 path fell back in silence"; bad=1; }
  fi
  penny stop --log-dir "$runs" || kill -TERM $server  # without the supervisor it is a plain process
  wait $server; echo "the server ended with $?"
  grep -v 'it/s' "$log" | tail -n 300 | cut -c1-300 > "$out/server-$case.log"
done
exit $bad
