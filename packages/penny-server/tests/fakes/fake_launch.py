"""Stands in for ``penny_server.sglang.launch``: start-up events without SGLang, several ways to fail.

FAKE_MODE chooses the behaviour; every process that is started writes its id to FAKE_PIDS.
"""

import http.server
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from penny_server.events import emit

MODE = os.environ["FAKE_MODE"]
PORT = int(sys.argv[sys.argv.index("--port") + 1])
SLEEPER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def note_pid(pid: int) -> None:
    with open(os.environ["FAKE_PIDS"], "a") as file:
        file.write(f"{pid}\n")


class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


note_pid(os.getpid())
print("fake server log", flush=True)
emit("imports", "begin")
if MODE == "fail-event":
    emit("imports", "fail", message="Seam x does not fit: expected digest a, found b.", exit_code=3)
    sys.exit(3)
if MODE == "fail-and-hang":
    emit("imports", "fail", message="The scheduler is gone.", exit_code=5)
    time.sleep(600)
if MODE == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
emit("imports", "end")
emit("weights", "begin")
if MODE == "crash":
    print("Traceback (most recent call last):\nRuntimeError: boom", flush=True)
    sys.exit(1)
if MODE == "pool":
    print("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", flush=True)
    sys.exit(1)
if MODE in ("grandchildren", "slow"):
    note_pid(subprocess.Popen([sys.executable, "-c", SLEEPER]).pid)
    note_pid(subprocess.Popen([sys.executable, "-c", SLEEPER], start_new_session=True).pid)
    # A daemon: its parent ends at once, so that only its ancestry in the past says whose it is.
    daemon = (
        f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {SLEEPER!r}],"
        " start_new_session=True, stdout=subprocess.DEVNULL).pid)"
    )
    note_pid(int(subprocess.check_output([sys.executable, "-c", daemon])))
if MODE == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if MODE == "slow":
    time.sleep(600)
emit("weights", "progress", bytes=1_900_000, of=7_600_000, fraction=0.25)
emit("weights", "end", bytes=7_600_000)
emit("pools", "end", tokens=8192 if MODE == "small-pool" else 16384, requests=8, slots=64)
BACKENDS = {"attention, decode": "IntelAMXAttnBackend", "linear attention, decode": "TritonGDNKernel"}
BACKENDS |= {"KV cache": "bfloat16", "recurrent state": "float32, convolution bfloat16"}
emit("backends", "end", draft=False, resolved=BACKENDS)
SEAMS = ["pools.as-asked", "pools.requests-as-asked", "seeds.per-request"]
Path(os.environ["PENNY_RUN_DIR"], "seams.jsonl").write_text(
    json.dumps({"role": "scheduler", "seams": SEAMS}) + "\n"
)
server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Health)
emit("ready", "begin")
if MODE == "ends-later":
    server.timeout = 0.5
    server.handle_request()
    time.sleep(1.0)
    sys.exit(7)
server.serve_forever()
