"""Serves cases of speculation_cases.py on one GPU, all at once, and reads their decode rates in turn, back and forth.

    python gpu_speculation.py OUT CASE... [--rounds 2] [--gpu 0] [--port 8100]

All servers share the GPU, each started as soon as its weights fit beside the others; then one is asked at a time while
the others wait idle. The order is A B C C B A for each round, one stream and four each time, so that what drifts meets
all alike. OUT/CASE.json is written when a server is ready and after each of its readings; OUT/CASE.log is the end of
its log. Nothing waits for ever: a start of more than --start-limit, a request of more than 90 s or a server that ends
by itself is an ``error`` in the case's file.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import speculation_cases as cases
from speculation_load import generate, prompt, rate

POLL_S = 1.0
LOADED = "Load weight end"


class Server:
    """A server process, its log and its result file."""

    def __init__(
        self, name: str, argv: list[str], env: dict[str, str], url: str, out: Path, runs: Path
    ) -> None:
        self.name, self.argv, self.env, self.url = name, argv, env, url
        self.run_dir = runs / name
        self.run_dir.mkdir(parents=True, exist_ok=True)
        (self.run_dir / "seams.jsonl").unlink(missing_ok=True)
        self.log, self.file, self.end = self.run_dir / "server.log", out / f"{name}.json", out / f"{name}.log"
        self.env |= {"PENNY_RUN_DIR": str(self.run_dir)}
        self.process: subprocess.Popen[bytes] | None = None
        self.loading_gib = self.serving_gib = 0
        self.row: dict[str, Any] = {"case": name, "readings": {"c1": [], "c4": []}}

    def start(self) -> None:
        """Starts it in a process group of its own; it ends with us, for what holds the GPU spoils what comes next."""
        self.begun = time.monotonic()
        argv = ["setpriv", "--pdeathsig", "KILL", *self.argv]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                argv, env=self.env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        print(f"started {self.name}, pid {self.process.pid}", flush=True)

    def text(self) -> str:
        """Its log."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def ready(self) -> bool:
        """Whether it answers; /health of a starting server is 503."""
        try:
            return httpx.get(f"{self.url}/health", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def ended(self) -> bool:
        """Whether its process is gone."""
        return self.process is not None and self.process.poll() is not None

    def fail(self, why: str) -> None:
        """Writes down why there are no (more) readings."""
        self.row["error"] = why
        self.write()
        print(f"{self.name}: {why}", flush=True)

    def write(self) -> None:
        """Brings its files up to date."""
        lines = [line[:300] for line in self.text().splitlines() if "it/s" not in line]
        self.end.write_text("\n".join(lines[-200:]) + "\n")
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(self.row, indent=1) + "\n")
        part.replace(self.file)

    def stop(self) -> None:
        """Ends its processes."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            self.process.wait()


def servers(args: argparse.Namespace) -> list[Server]:
    """The servers of the cases asked for, not started."""
    runs = args.work / f"runs-{args.port}"
    if args.rehearse:
        return rehearsal(args, runs)
    places = cases.write_shapes(args.work / f"shapes-{args.port}")
    found = []
    for number, name in enumerate(args.cases):
        case = cases.case(name, tuple(args.features.split(",")) if args.features else ())
        port = args.port + 10 * number
        settings = {
            key: value.format(draft=places["draft"], map=places["map"]) if isinstance(value, str) else value
            for key, value in case.settings.items()
        }
        chosen = {key: os.environ.get(key, value) for key, value in case.env.items()}
        env = {key: value for key, value in os.environ.items() if not key.startswith("PENNY_")} | chosen
        env |= {"SGLANG_PLUGINS": "none"} if case.stock else {"PENNY_FEATURES": ",".join(case.features)}
        if args.gpu is not None:
            env["CUDA_VISIBLE_DEVICES"] = str(args.gpu)
        module = "sglang.launch_server" if case.stock else "penny_server.sglang.launch"
        argv = [sys.executable, "-m", module, "--model-path", str(places[case.family])]
        # Its own, as servers that start together may find the same one free.
        argv += ["--host", "127.0.0.1", "--port", str(port), "--nccl-port", str(port + 5)]
        argv += cases.flags(settings)
        server = Server(name, argv, env, f"http://127.0.0.1:{port}", args.out, runs)
        shown = [word.replace(str(args.work), "WORK") for word in argv[1:]]
        server.row |= {"ours": not case.stock, "arguments": shown, "environment": chosen}
        server.row |= {"features": list(case.features), "vocabulary": cases.VOCABULARY}
        server.loading_gib, server.serving_gib = case.loading_gib, case.serving_gib
        found.append(server)
    return found


def rehearsal(args: argparse.Namespace, runs: Path) -> list[Server]:
    """tiny-27b on the CPU by profiles."""
    from penny_models import tiny
    from penny_server.profiles import Overrides, load, resolve
    from penny_server.serving.choose import surroundings

    found = []
    for number, profile in enumerate(args.rehearse):
        place, port = Path(tiny.path("tiny-27b")), args.port + 10 * number
        launch = resolve(load(profile), "cpu", place, surroundings(), Overrides({}), port=port)
        server = Server(
            profile, launch.argv(sys.executable), launch.child_env(os.environ), launch.url, args.out, runs
        )
        server.row |= {"ours": True, "features": list(launch.features), "vocabulary": 4000}
        found.append(server)
    return found


def start_all(waiting: list[Server], args: argparse.Namespace) -> list[Server]:
    """Starts each when there is room for its weights, and returns those that became ready."""
    todo, running, good = list(waiting), list[Server](), list[Server]()
    while todo or running:
        taken = sum(s.serving_gib if LOADED in s.text() else s.loading_gib for s in (*running, *good))
        if todo and (not taken or taken + todo[0].loading_gib <= args.gib):
            server = todo.pop(0)
            server.start()
            running.append(server)
            continue
        if not running:
            for server in todo:
                server.fail(
                    f"no room: loading it takes {server.loading_gib} GiB beside {taken} of {args.gib}; "
                    "name it first, or fewer cases"
                )
            break
        time.sleep(POLL_S)
        for server in list(running):
            took = time.monotonic() - server.begun
            if server.ended():
                server.fail(f"the server ended by itself after {took:.0f} s; see the end of its log")
            elif server.ready():
                server.row["ready_s"] = round(took, 1)
                print(f"{server.name} is ready after {took:.0f} s", flush=True)
                good.append(server)
            elif took > args.start_limit:
                server.fail(f"not ready after {args.start_limit:.0f} s")
                server.stop()
            else:
                continue
            running.remove(server)
    return good


def describe(server: Server) -> None:
    """Writes down what the server says of itself, its proven seams, and what its log must hold."""
    info = httpx.get(f"{server.url}/server_info", timeout=30).json()
    asked = ("attention_backend", "speculative_algorithm", "quantization", "disable_cuda_graph", "version")
    server.row["server"] = {key: info.get(key) for key in asked}
    answer = generate(server.url, prompt(7, 64, server.row["vocabulary"]), 64)
    server.row["distinct_of_64_tokens"] = len(set(answer["output_ids"]))
    if server.row["ours"]:
        listed = "import sys; from penny_server.cli import main; sys.argv[0] = 'penny'; main()"
        command = [sys.executable, "-c", listed, "seams", "--run-dir", str(server.run_dir), "--json"]
        told = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=120).stdout)
        mine = [seam for seam in told if seam["feature"] in server.row["features"]]
        server.row["seams_active"] = sorted(seam["name"] for seam in mine if seam["state"] == "active")
        server.row["seams_missing"] = sorted(seam["name"] for seam in mine if seam["state"] != "active")
    if info.get("speculative_algorithm") == "DFLASH":
        log = server.text()
        server.row["log_says"] = {what: words in log for what, words in cases.SAID.items()}


def read(server: Server, args: argparse.Namespace, seed: int, keep: bool) -> None:
    """One visit: one stream, then four; not kept when it only warms up."""
    for streams in (1, 4):
        got = rate(
            server.url, streams, args.tokens, args.prompt_tokens, server.row["vocabulary"], seed + streams
        )
        if keep:
            server.row["readings"][f"c{streams}"].append(got)
            print(
                f"{server.name} C{streams} {json.dumps({k: round(v, 2) for k, v in got.items()})}", flush=True
            )


def main() -> int:
    """Starts, reads in turn, ends."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("cases", nargs="*", choices=[*cases.names(), []], metavar="CASE")
    parser.add_argument("--rounds", type=int, default=2, help="of A B B A")
    parser.add_argument("--tokens", type=int, default=256, help="of each answer")
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--gpu", type=int, help="CUDA_VISIBLE_DEVICES of the servers")
    parser.add_argument(
        "--port", type=int, default=8100, help="of the first server; each next one is 10 higher"
    )
    parser.add_argument("--gib", type=int, default=139, help="memory of the GPU")
    parser.add_argument("--start-limit", type=float, default=360.0, help="seconds for one server's start")
    parser.add_argument("--budget", type=float, default=540.0, help="seconds after which no reading is begun")
    parser.add_argument(
        "--features", default="", help="more of our features for cases with drafts, with commas"
    )
    parser.add_argument("--work", type=Path, default=Path("/tmp/gpu-speculation"))
    parser.add_argument(
        "--rehearse", nargs="+", metavar="PROFILE", help="tiny-27b on the CPU instead, by profiles"
    )
    args = parser.parse_args()
    if bool(args.cases) == bool(args.rehearse):
        parser.error("Name cases (python speculation_cases.py lists them), or profiles to rehearse with.")
    args.out.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    all_servers = servers(args)
    try:
        good = start_all(all_servers, args)
        versions = {name: version(name) for name in ("sglang", "torch", "penny-server")}
        command = "bash packages/penny-server/benchmarks/gpu_speculation.sh OUT " + " ".join(
            args.cases or ["--rehearse"]
        )
        beside = [server.name for server in good]
        for server in list(good):
            server.row |= {"command": command, "versions": versions, "on_the_same_gpu": beside}
            server.row |= {"gpu": gpu_name(), "tokens": args.tokens, "prompt_tokens": args.prompt_tokens}
            attempt(server, good, lambda s: (describe(s), read(s, args, 1, keep=False)))
        for turn in range(2 * args.rounds):
            for server in list(good if turn % 2 == 0 else reversed(good)):
                if time.monotonic() - begun > args.budget:
                    continue
                attempt(server, good, lambda s, seed=10 * (turn + 2): read(s, args, seed, keep=True))
    finally:
        for server in all_servers:
            server.stop()
    done = [server for server in all_servers if server.row["readings"]["c4"] and "error" not in server.row]
    print(f"{len(done)} of {len(all_servers)} cases measured in {time.monotonic() - begun:.0f} s")
    return 0 if len(done) == len(all_servers) else 1


def attempt(server: Server, good: list[Server], step: Any) -> None:
    """Runs a step of a server; one that fails is written down and left out from then on."""
    try:
        step(server)
        server.write()
    except (httpx.HTTPError, RuntimeError, ValueError, KeyError, subprocess.SubprocessError) as error:
        server.fail(f"{type(error).__name__}: {str(error)[:500]}")
        server.stop()
        good.remove(server)


def gpu_name() -> str:
    """Name, driver and capability of the first GPU, or that there is none."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"]
    try:
        return subprocess.run(query, check=True, capture_output=True, text=True).stdout.splitlines()[0]
    except (FileNotFoundError, subprocess.CalledProcessError):
        return "none"


if __name__ == "__main__":
    sys.exit(main())
