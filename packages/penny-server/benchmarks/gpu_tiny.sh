#!/usr/bin/env bash
# gpu_tiny.sh OUT [SITE]: on a GPU machine, install the wheels in dist/ into SITE and run the tiny-27b profile with
# CUDA graphs in bfloat16 and float32: seams, tokens against transformers, decode rates. JSON goes to OUT.
set -uo pipefail
out=$1 site=${2:-/tmp/site}
here=$(cd "$(dirname "$0")" && pwd)
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$site" dist/*.whl || exit 1
penny() { python3 -c "import sys; from penny_server.cli import main; sys.argv[0] = 'penny'; main()" "$@"; }
bench() { python3 -c "import sys; from penny_bench.cli import main; sys.argv[0] = 'penny-bench'; main()" "$@"; }
checkpoint=$(python3 -c "from penny_models import tiny; print(tiny.path('tiny-27b'))")
penny version
nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader
for dtype in bfloat16 float32; do
  runs=/tmp/runs-$dtype && mkdir -p "$runs"
  extra=(); [ $dtype = float32 ] && extra=(--set cuda_graph_backend_prefill=disabled)  # saves a minute
  penny serve tiny-27b --device cuda --port 8001 --set dtype=$dtype "${extra[@]}" --log-dir "$runs" > "$runs/screen" 2>&1 &
  supervisor=$!
  for _ in $(seq 240); do grep -q '^curl' "$runs/screen" && break; kill -0 $supervisor 2>/dev/null || break; sleep 1; done
  cat "$runs/screen"
  run=$(dirname "$(find "$runs" -name server.log | head -n 1)")
  penny seams --run-dir "$run" --json > "$out/seams-$dtype.json"
  python3 "$here/same_tokens.py" collect --url http://127.0.0.1:8001 --checkpoint "$checkpoint" --out "$out/asked-$dtype.json"
  python3 "$here/same_tokens.py" explain "$out/asked-$dtype.json" --checkpoint "$checkpoint" --out "$out/tokens-$dtype.json" 2>&1 | tail -n 20
  [ $dtype = bfloat16 ] && bench decode --url http://127.0.0.1:8001 --concurrency 1,8 --tokens 256 --runs 3 --json "$out/decode-$dtype.json"
  kill -INT $supervisor; wait $supervisor; echo "penny serve ended with $?"
  grep -iE "graph|backend|capture|max_total" "$run/server.log" | grep -v it/s | tail -n 15 | cut -c1-200
  tail -n 400 "$run/server.log" | cut -c1-400 > "$out/server-$dtype.log"
done
