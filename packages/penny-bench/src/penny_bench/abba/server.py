"""The server of one restart: started, ready, ended."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from penny_bench.abba.interrupts import Interrupts
from penny_bench.abba.plan import AbbaPlan, Side
from penny_bench.abba.process import Process
from penny_bench.errors import BenchError

PATIENCE = 20.0
"""How long a port may still answer after its server has ended, s."""
LOCAL = ("localhost", "127.0.0.1", "::1")
"""Hosts that no proxy is asked for."""
LOCKED = (401, 403)
"""A server that wants a key answers."""
MISSING = 404


@contextmanager
def server(plan: AbbaPlan, side: Side, log: Path, interrupts: Interrupts) -> Iterator[Process]:
    """The server of a side, ready; ended with all its processes when the context ends.

    Raises:
        BenchError: something answers at its address already, or it ended or was not ready in time.
        KeyboardInterrupt: a signal came meanwhile.
    """
    wanted = plan.server(side)
    process = Process(wanted.command, log, dict(wanted.env), wanted.folder)
    try:
        _wait_until_ready(process, plan, side, interrupts)
        yield process
    finally:
        process.stop(plan.stop_timeout, interrupts)


def refuse_other_server(url: str, interrupts: Interrupts, patience: float = 0.0) -> None:
    """Make sure that nothing answers at an address, so that no other server is measured.

    Raises:
        BenchError: something does, for longer than the patience, s.
    """
    end = time.monotonic() + patience
    while _answers(url):
        if time.monotonic() >= end:
            raise BenchError(
                f"Something answers at {url} already, which would be measured in place of the plan's server; end it, "
                f"or give another port in the plan."
            )
        interrupts.sleep(0.5)


def _answers(url: str) -> bool:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=2.0):
            return True
    except socket.gaierror as error:
        raise BenchError(f"The host of {url} is unknown: {error.strerror}.") from error
    except OSError:  # refused, or no route
        return False


def _wait_until_ready(process: Process, plan: AbbaPlan, side: Side, interrupts: Interrupts) -> None:
    url = plan.server(side).url
    parts = urlsplit(url)
    root = f"{parts.scheme}://{parts.netloc}"
    paths = [plan.ready_path] if plan.ready_path else ["/health", "/v1/models"]
    end = time.monotonic() + plan.ready_timeout
    with httpx.Client(trust_env=parts.hostname not in LOCAL, timeout=5.0) as client:
        while not _ready(client, [root + path for path in paths]):
            if process.status is not None:
                raise BenchError(
                    f"The server of {side.upper()} ended with status {process.status} before it answered; its command "
                    f"must stay in the foreground. {process.last_lines()}"
                )
            if time.monotonic() >= end:
                raise BenchError(
                    f"The server of {side.upper()} did not answer at {root + paths[0]} within "
                    f"{plan.ready_timeout:g} s; correct url, ready_path or ready_timeout. {process.last_lines()}"
                )
            interrupts.sleep(0.2)


def _ready(client: httpx.Client, addresses: Sequence[str]) -> bool:
    """Whether the first address that the server has at all says that it is ready."""
    try:
        for address in addresses:
            status = client.get(address).status_code
            if status != MISSING:
                return status < 400 or status in LOCKED
    except httpx.HTTPError:
        return False
    return False
