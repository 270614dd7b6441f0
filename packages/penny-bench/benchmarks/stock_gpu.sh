#!/usr/bin/env bash
# stock_gpu.sh OUT CONFIG [SITE]: on a GPU machine, install the wheels in dist/ into SITE, start stock SGLang with the
# full-size shape of CONFIG and random weights, and run benchmarks/plans/full-size.toml against it. Results go to OUT.
set -uo pipefail
out=$1 config=$2 site=${3:-/tmp/site} port=8002
here=$(cd "$(dirname "$0")" && pwd)
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$site" dist/*.whl || exit 1
bench() { python3 -c "import sys; from penny_bench.cli import main; sys.argv[0] = 'penny-bench'; main()" "$@"; }
tiny=$(python3 -c "from penny_models import tiny; print(tiny.path('tiny-27b'))")
python3 "$here/full_size.py" "$config" "$tiny" /tmp/full-size || exit 1
SGLANG_PLUGINS=none setsid python3 -m sglang.launch_server --model-path /tmp/full-size --served-model-name full-size \
  --port $port --load-format dummy --quantization fp8 --attention-backend triton --context-length 140000 \
  --cuda-graph-backend-prefill disabled --max-running-requests 8 --enable-metrics --enable-cache-report \
  --reasoning-parser qwen3 --tool-call-parser qwen3_coder > /tmp/full-size.log 2>&1 &
server=$!
for _ in $(seq 150); do curl -sf -o /dev/null localhost:$port/health && break; kill -0 $server || break; sleep 2; done
grep -vE "it/s|Ignore import" /tmp/full-size.log | tail -n 4 | cut -c1-220
nvidia-smi --query-gpu=name,driver_version,power.draw,clocks.sm,clocks.mem,memory.used --format=csv,noheader
mkdir -p /tmp/full-size-results
bench qualify "$here/plans/full-size.toml" --out /tmp/full-size-results
bench report /tmp/full-size-results/decode-short.json /tmp/full-size-results/prefill-cold.json \
  /tmp/full-size-results/interference.json --html /tmp/full-size-results/report.html
kill -INT $server; sleep 2; pkill -KILL -g $server
grep -vE "it/s" /tmp/full-size.log | tail -n 300 | cut -c1-300 > /tmp/full-size-results/server.log
tar -czf "$out/full-size.tgz" -C /tmp full-size-results
