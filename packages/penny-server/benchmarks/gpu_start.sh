#!/usr/bin/env bash
# gpu_start.sh OUT [SITE]: on a GPU machine, install the wheels in dist/ into SITE, ask the doctor, start the tiny-27b profile
# and keep what the start tells: phases, graphs, kernel builds, plan against reality, backends, assertions. Then stop it.
set -uo pipefail
out=$1 site=${2:-/tmp/site}
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$site" dist/*.whl || exit 1
penny() { python3 -c "import sys; from penny_server.cli import main; sys.argv[0] = 'penny'; main()" "$@"; }
penny doctor tiny-27b --device cuda --json > "$out/doctor.json"; echo "doctor ended with $?"
penny doctor tiny-27b --device cuda --quick | grep -vE '^ *ok' | head -n 30
penny serve tiny-27b --device cuda --port 8001 --json --log-dir /tmp/runs > "$out/start.jsonl" 2>&1 &
supervisor=$!
for _ in $(seq 200); do grep -q '"event": "ready"' "$out/start.jsonl" && break; kill -0 $supervisor 2>/dev/null || break; sleep 1; done
penny status --backends --log-dir /tmp/runs
run=$(dirname "$(find /tmp/runs -name server.log | head -n 1)")
cp "$run/events.jsonl" "$out/events.jsonl"; cp "$run/state.json" "$out/state.json"
tail -n 200 "$run/server.log" | cut -c1-300 > "$out/server.log"
curl -s localhost:8001/v1/chat/completions -H 'Content-Type: application/json' \
  -d '{"model": "tiny-27b", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 16}'; echo
penny stop --log-dir /tmp/runs; wait $supervisor; echo "penny serve ended with $?"
tail -n 12 "$out/start.jsonl" | cut -c1-900
