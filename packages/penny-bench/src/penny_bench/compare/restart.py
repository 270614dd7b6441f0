"""One restart of a server: what a result file says about it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penny_bench.errors import BenchError
from penny_bench.report import SCHEMA


@dataclass(frozen=True)
class Metric:
    """A number of a row that can be compared.

    Attributes:
        key: its name in the summary of a result file, and of the option `--metric`.
        label: its name in tables, as `penny-bench decode` prints it.
        unit: of the values.
        higher: whether more is better.
    """

    key: str
    label: str
    unit: str
    higher: bool


METRICS = {
    metric.key: metric
    for metric in (
        Metric("aggregate", "all", "tok/s", True),
        Metric("stream", "each", "tok/s", True),
        Metric("whole", "whole", "tok/s", True),
        Metric("ttft", "TTFT", "s", False),
    )
}


@dataclass(frozen=True)
class RestartRow:
    """One concurrency of a restart.

    Attributes:
        values: median of each metric by key, None where there is none.
        prompt_tokens: median length of the prompts as the server counted it, None if it did not.
        least_tokens: fewest tokens of a stream.
        cached: largest share of a prompt that came from the server's cache.
        failed: how many streams failed.
    """

    values: dict[str, float | None]
    prompt_tokens: float | None
    least_tokens: float | None
    cached: float
    failed: int


@dataclass(frozen=True)
class Restart:
    """What one result file of `penny-bench decode --json` says.

    Attributes:
        name: path of the file, as it was given.
        digest: SHA-256 of the file.
        started: when it was measured.
        model: model name.
        tokens, prompt_tokens, runs: of its plan.
        extensions: whether the server took `ignore_eos`.
        client: version of this package, of Python, and the platform.
        rows: by concurrency.
    """

    name: str
    digest: str
    started: datetime
    model: str
    tokens: int
    prompt_tokens: int
    runs: int
    extensions: bool
    client: dict[str, str]
    rows: dict[int, RestartRow]


def read_restart(path: Path) -> Restart:
    """Read a result file.

    Raises:
        BenchError: the file cannot be read, or is no result of `penny-bench decode`.
    """
    try:
        data = path.read_bytes()
        read = json.loads(data)
    except OSError as error:
        raise BenchError(f"Could not read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise BenchError(f"{path} is not JSON; give a file that penny-bench decode --json wrote.") from error
    found = read.get("schema") if isinstance(read, dict) else None
    if found != SCHEMA:
        raise BenchError(
            f"{path} has the schema {found!r}; give a file of {SCHEMA}, from penny-bench decode."
        )
    try:
        plan = read["plan"]
        return Restart(
            name=str(path),
            digest=hashlib.sha256(data).hexdigest(),
            started=datetime.fromisoformat(read["started"]).astimezone(UTC),
            model=str(read["server"]["model"]),
            tokens=int(plan["tokens"]),
            prompt_tokens=int(plan["prompt_tokens"]),
            runs=int(plan["runs"]),
            extensions=bool(read["server"]["extensions"]),
            client={key: str(value) for key, value in read["client"].items()},
            rows={int(row["concurrency"]): _row(row, read["groups"]) for row in read["summary"]},
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BenchError(
            f"{path} lacks or garbles a part of {SCHEMA} ({type(error).__name__}: {error}); measure again."
        ) from error


def read_side(text: str) -> list[Restart]:
    """Read the restarts of one side in the order in which they were measured.

    Args:
        text: a file, a folder of which every `*.json` is read, or several of both with commas between.

    Raises:
        BenchError: a path does not exist, a folder holds no result, or a file is none.
    """
    paths: list[Path] = []
    for part in [text] if Path(text).exists() else text.split(","):
        path = Path(part)
        found = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not found:
            raise BenchError(f"There is no *.json in the folder {path}; put one result a restart into it.")
        paths += found
    return sorted((read_restart(path) for path in paths), key=lambda restart: restart.started)


def _row(row: dict[str, Any], groups: list[dict[str, Any]]) -> RestartRow:
    records = [
        record
        for group in groups
        if group["concurrency"] == row["concurrency"] and not group["warmup"]
        for record in group["records"]
        if record["failure"] is None
    ]
    shares = [(record["cached_tokens"] or 0) / (record["prompt_tokens"] or 1) for record in records]
    return RestartRow(
        values={key: row[key] and float(row[key]["median"]) for key in METRICS},
        prompt_tokens=row["prompt_tokens"] and float(row["prompt_tokens"]["median"]),
        least_tokens=row["output_tokens"] and float(row["output_tokens"]["minimum"]),
        cached=max(shares, default=0.0),
        failed=sum(row["failures"].values()),
    )
