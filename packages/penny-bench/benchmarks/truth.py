"""What a client says beside what the mock did: shared by ``client.py`` and ``peers.py``."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from penny_bench.load import RunResult
from penny_bench.mock import Served, read_log

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Mock:
    """A mock in a process of its own.

    Attributes:
        url: its address.
        served: what it did; there when it has ended.
    """

    url: str
    served: list[Served] = field(default_factory=list)


@contextmanager
def mock(**options: Any) -> Iterator[Mock]:
    """Run ``penny-bench mock`` with these options on a free port; at the end its log is read."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        words = [sys.executable, "-m", "penny_bench.mock", "--port", "0", "--log", str(log)]
        for name, value in options.items():
            words += [f"--{name.replace('_', '-')}", str(value)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert process.stdout
        running = Mock(process.stdout.readline().split()[-1])
        try:
            yield running
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        running.served = list(read_log(log))


@dataclass(frozen=True)
class Errors:
    """The client's times minus the mock's, s, one entry for each request or event.

    Attributes:
        ttft: of the time from the request to the first event with tokens.
        itl: of the pauses between events with tokens.
        seen: from the write of an event to the client's stamp.
        tpot: relative error of the time per token of each stream.
        late: most that the mock was late with an event, for each request: its own error.
        uncertain: how long the writes took: the truth itself is known to within that.
        held: writes that the system did not take at once.
        seconds: from the first request to the last event, by the mock.
    """

    ttft: list[float]
    itl: list[float]
    seen: list[float]
    tpot: list[float]
    late: list[float]
    uncertain: list[float]
    held: int
    seconds: float


def errors(result: RunResult, served: Sequence[Served]) -> Errors:
    """Compare a run with what the mock did for its measured requests, which are the last ones.

    One thread sent them one by one over loopback, so they came in the order in which they were sent.
    """
    records = sorted((request.record for request in result.requests), key=lambda record: record.sent)
    truth = sorted(served[-len(records) :], key=lambda one: one.received)
    seconds = max(one.events()[-1][0] for one in truth) - truth[0].received
    found = Errors([], [], [], [], [], [], sum(one.held for one in truth), seconds)
    for record, one in zip(records, truth, strict=True):
        assert record.failure is None, record.failure
        events = one.events()
        times = np.array([t for t, _ in events]) - result.zero
        came = np.array([arrival.t for arrival in record.arrivals[: len(events)]])
        sent = one.received - result.zero
        assert 0 <= sent - record.sent < 1, "a request was taken for another"
        found.ttft.append((came[0] - record.sent) - (times[0] - sent))
        found.itl.extend(np.diff(came) - np.diff(times))
        found.seen.extend(came - times)
        found.tpot.append((came[-1] - came[0]) / (times[-1] - times[0]) - 1)
        found.late.append(one.late)
        found.uncertain.extend(b - a for a, b in zip(one.sent, one.after, strict=True))
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Of absolute values: median, p99 and maximum."""
    sizes = np.abs(np.array(values))
    return {
        "p50": float(np.percentile(sizes, 50)),
        "p99": float(np.percentile(sizes, 99)),
        "max": float(sizes.max()),
    }


def machine() -> dict[str, Any]:
    """What it ran on, and what else ran there."""
    names = [
        line.split(":")[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return {
        "cpu": names[0].strip() if names else platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
        "penny_bench": version("penny-bench"),
        "load_before": os.getloadavg()[0],
        "nice": os.nice(0),
    }


def wait_until_quiet(below: float, longest: float = 60.0) -> float:
    """Wait until the one-minute load is below the limit, or for the longest time; returns the load, s."""
    end = time.monotonic() + longest
    while os.getloadavg()[0] > below and time.monotonic() < end:
        time.sleep(2)
    return os.getloadavg()[0]


def write(path: Path | None, document: dict[str, Any]) -> None:
    """Write the result, where one is asked for."""
    if path:
        path.write_text(json.dumps(document, indent=1) + "\n")
