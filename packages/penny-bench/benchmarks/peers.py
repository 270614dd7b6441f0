"""penny-bench, GuideLLM and SGLang's clients under the same load on the same mock: what each reports, and the truth.

    python peers.py --guidellm PATH/bin/guidellm --out bench-peers.json

Every client sends the same number of requests at once and follows them to the end. What it reports, by its own names,
stands beside what the mock's log says of those requests: time to the first token, time per token after the first
event, tokens, tokens/s. Its wall and processor time are those of its whole command, with the start of Python. GuideLLM
is not a dependency: ``uv venv DIR && uv pip install --python DIR/bin/python guidellm``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from truth import Served, machine, mock, wait_until_quiet, write

COMMAND = "python packages/penny-bench/benchmarks/peers.py --guidellm PATH --out FILE"
TOKENIZER = Path(__file__).parents[2] / "penny-models" / "src" / "penny_models" / "tiny" / "tiny-27b"
STREAMS, RATE, EVENTS, PROMPT = 256, 10, 40, 64
PER_CHUNK = (1, 4)


@dataclass(frozen=True)
class Report:
    """What a client says, s; each list has one entry a request.

    Attributes:
        ttft: time to the first token.
        per_token: time per token after the first, as the client computes it.
        tokens: all output tokens.
        rate: output tokens/s.
        peak: most output tokens in a second, where it says.
        version: of the client.
    """

    ttft: Sequence[float]
    per_token: Sequence[float]
    tokens: int
    rate: float
    peak: float | None
    version: str


@dataclass(frozen=True)
class Client:
    """A client: its command for an address, a number of tokens and a result file; and how to read that file."""

    name: str
    command: Callable[[str, int, Path], list[str]]
    read: Callable[[Path], Report]


def penny_bench() -> Client:
    """Ours."""
    program = str(Path(sys.executable).with_name("penny-bench"))

    def command(url: str, tokens: int, out: Path) -> list[str]:
        load = [
            "--load",
            f"closed:concurrency={STREAMS}",
            "--requests",
            str(STREAMS),
            "--tokens",
            str(tokens),
        ]
        return [program, "run", "--url", url, *load, "--prompt-tokens", str(PROMPT), "--json", str(out)]

    def read(out: Path) -> Report:
        document = json.loads(out.read_text())
        times = [request["latency"] for request in document["requests"]]
        summary = document["summary"]
        return Report(
            [one["ttft"] for one in times],
            [one["tpot"] for one in times],
            summary["output_tokens"],
            summary["output_rate"],
            summary["peak_output_rate"],
            document["versions"]["penny_bench"],
        )

    return Client("penny_bench", command, read)


def sglang(python: str, module: str, tokenizer: Path, version: str) -> Client:
    """SGLang's client in Python (``serving``) or in Rust (``rust_client``)."""

    def command(url: str, tokens: int, out: Path) -> list[str]:
        return [
            *(python, "-m", f"sglang.benchmark.{module}", "--backend", "sglang-oai-chat", "--base-url", url),
            *("--dataset-name", "random-ids", "--random-input-len", str(PROMPT), "--random-range-ratio", "1"),
            *("--random-output-len", str(tokens), "--num-prompts", str(STREAMS)),
            *("--max-concurrency", str(STREAMS), "--model", "mock", "--tokenizer", str(tokenizer)),
            *("--output-file", str(out), "--output-details", "--disable-tqdm"),
        ]

    def read(out: Path) -> Report:
        found = json.loads(out.read_text().splitlines()[0])
        # Its TPOT of a request is (latency - TTFT) / (output tokens - 1), and the latency the sum of its pauses.
        per_token = [
            sum(pauses) / (count - 1)
            for pauses, count in zip(found["itls"], found["output_lens"], strict=True)
        ]
        assert abs(np.mean(per_token) - found["mean_tpot_ms"] / 1000) < 1e-3
        return Report(
            found["ttfts"],
            per_token,
            found["total_output_tokens"],
            found["output_throughput"],
            found["max_output_tokens_per_s"],
            version,
        )

    return Client(f"sglang_{module}", command, read)


def guidellm(program: str, tokenizer: Path) -> Client:
    """GuideLLM. Its inter-token latency is the time from first to last token by the tokens after the first."""
    version = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[-1]

    def command(url: str, tokens: int, out: Path) -> list[str]:
        return [
            *(program, "run", "--backend", f"kind=openai_http,target={url},http2=false"),
            *("--profile", f"kind=concurrent,streams={STREAMS}"),
            *("--constraint", f"kind=max_requests,count={STREAMS}"),
            *("--tokenizer", f"kind=hf_auto,model={tokenizer}"),
            *("--data", f"kind=synthetic_text,prompt_tokens={PROMPT},output_tokens={tokens}"),
            *("--output", f"kind=json,path={out}", "--disable-console"),
        ]

    def read(out: Path) -> Report:
        found = json.loads(out.read_text())["benchmarks"][0]
        requests = found["requests"]["successful"]
        metrics = found["metrics"]
        return Report(
            [one["time_to_first_token_ms"] / 1000 for one in requests],
            [one["inter_token_latency_ms"] / 1000 for one in requests],
            int(metrics["output_token_count"]["successful"]["total_sum"]),
            metrics["output_tokens_per_second"]["successful"]["mean"],
            None,
            version,
        )

    return Client("guidellm", command, read)


def truth(served: Sequence[Served], per_chunk: int) -> Report:
    """What the mock says of its last requests, which are those that count."""
    last = served[-STREAMS:]
    events = [one.events() for one in last]
    tokens = sum(count for one in events for _, count in one)
    times = sorted((t, count) for one in events for t, count in one)
    ends = np.array([t for t, _ in times])
    sums = np.cumsum([0, *(count for _, count in times)])
    return Report(
        [one[0][0] - request.received for one, request in zip(events, last, strict=True)],
        [(one[-1][0] - one[0][0]) / sum(count for _, count in one[1:]) for one in events],
        tokens,
        tokens / (ends[-1] - min(request.received for request in last)),
        float(max(sums[np.searchsorted(ends, ends + 1.0)] - sums[:-1])),
        "",
    )


def numbers(report: Report) -> dict[str, Any]:
    """A report as it is written down."""
    return {
        "ttft": {name: float(np.percentile(report.ttft, rank)) for name, rank in (("p50", 50), ("p99", 99))},
        "per_token": {
            name: float(np.percentile(report.per_token, rank)) for name, rank in (("p50", 50), ("p99", 99))
        },
        "tokens": report.tokens,
        "rate": report.rate,
        "peak": report.peak,
    }


def error(said: dict[str, Any], true: dict[str, Any]) -> dict[str, Any]:
    """How far a report is from the truth, without sign: s for the time to the first token, else as a share."""
    peak = said["peak"]
    return {
        "ttft_p50": abs(said["ttft"]["p50"] - true["ttft"]["p50"]),
        "ttft_p99": abs(said["ttft"]["p99"] - true["ttft"]["p99"]),
        "per_token_p50": abs(said["per_token"]["p50"] / true["per_token"]["p50"] - 1),
        "per_token_p99": abs(said["per_token"]["p99"] / true["per_token"]["p99"] - 1),
        "tokens": abs(said["tokens"] - true["tokens"]),
        "rate": abs(said["rate"] / true["rate"] - 1),
        "peak": None if peak is None else abs(peak / true["peak"] - 1),
    }


def measure(client: Client, per_chunk: int) -> dict[str, Any]:
    """Run a client against a fresh mock."""
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        with mock(first=0.3, interval=1 / RATE, per_chunk=per_chunk) as server:
            words = client.command(server.url, EVENTS * per_chunk, out)
            started = time.perf_counter()
            process = subprocess.Popen(
                words,
                env=environment,
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert process.stderr
            said = process.stderr.read()
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - started
        if status:
            raise SystemExit(f"{' '.join(words)} failed:\n{said[-2000:]}")
        report = client.read(out)
    true, found = numbers(truth(server.served, per_chunk)), numbers(report)
    measured = {
        "version": report.version,
        "wall_s": wall,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "reported": found,
        "truth": true,
        "error": error(found, true),
    }
    show(client.name, measured)
    return measured


def show(name: str, row: dict[str, Any]) -> None:
    """Print a row."""
    far = row["error"]
    peak = "   none" if far["peak"] is None else f"{100 * far['peak']:7.2f}"
    print(
        f"{name:20} TTFT p50 {1000 * far['ttft_p50']:8.3f} ms, p99 {1000 * far['ttft_p99']:8.3f} ms | per token p50 "
        f"{100 * far['per_token_p50']:8.4f} %, p99 {100 * far['per_token_p99']:8.4f} % | tokens {far['tokens']} | "
        f"rate {100 * far['rate']:7.3f} % | peak {peak} % | wall {row['wall_s']:5.1f} s, cpu {row['cpu_s']:5.1f} s",
        flush=True,
    )


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--guidellm", help="its command; without, it is left out")
    parser.add_argument("--sglang", default=sys.executable, help="a Python that has sglang; '' leaves it out")
    parser.add_argument("--tokenizer", type=Path, default=TOKENIZER, help="for those who want one")
    parser.add_argument(
        "--load", type=float, default=0.5, help="wait, a minute at most, for a load below this"
    )
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    clients = [penny_bench()]
    if arguments.sglang:
        ask = "from importlib.metadata import version; print(version('sglang'))"
        version = subprocess.run(
            [arguments.sglang, "-c", ask], capture_output=True, text=True, check=True
        ).stdout.strip()
        clients += [
            sglang(arguments.sglang, module, arguments.tokenizer, version)
            for module in ("serving", "rust_client")
        ]
    if arguments.guidellm:
        clients.append(guidellm(arguments.guidellm, arguments.tokenizer))
    wait_until_quiet(arguments.load)
    document = {"command": COMMAND, "machine": machine(), "streams": STREAMS, "events_per_s": STREAMS * RATE}
    for per_chunk in PER_CHUNK:
        print(
            f"{STREAMS} streams of {RATE} events/s, {per_chunk} tokens an event; differences from the truth"
        )
        document[f"tokens_{per_chunk}"] = {client.name: measure(client, per_chunk) for client in clients}
    write(arguments.out, {**document, "load_after": os.getloadavg()[0]})


if __name__ == "__main__":
    main()
