"""Results of `python -m sglang.bench_serving --output-file FILE`, best with `--output-details`.

Source: `sglang/benchmark/serving.py` of SGLang 0.5.23. A file has one JSON object a line, one for each run.
"""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from penny_bench.errors import BenchError
from penny_bench.evidence.server_info import kept
from penny_bench.importers.columns import Columns, stated_times
from penny_bench.importers.foreign import Foreign, ForeignPhase

NATIVE = frozenset({"sglang", "sglang-native"})
"""Backends whose pauses are divided by the tokens of each chunk; those of the others are between chunks."""


class _Run(BaseModel):
    model_config = ConfigDict(extra="ignore")

    backend: str
    dataset_name: str | None = None
    request_rate: float | str | None = None
    max_concurrency: int | None = None
    random_input_len: int | None = None
    random_output_len: int | None = None
    random_range_ratio: float | None = None
    server_info: dict[str, Any] | None = None
    duration: float
    completed: int
    total_input_tokens: int | None = None
    total_output_tokens: int | None = None
    request_throughput: float | None = None
    output_throughput: float | None = None
    accept_length: float | None = None


def read_sglang(name: str, data: bytes, written: datetime, number: int | None = None) -> Foreign:
    """Read a result file.

    Args:
        name: of the file.
        data: its bytes.
        written: when it was written last, since it tells no date itself.
        number: which of its runs, from 1; may be left out where there is only one.

    Raises:
        BenchError: it is no such file, or has several runs and none was named.
    """
    lines = [line for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
    if number is None and len(lines) > 1:
        raise BenchError(f"{name} has {len(lines)} runs, one a line; name one with --number, the first is 1.")
    if not 1 <= (number or 1) <= len(lines):
        raise BenchError(f"{name} has no run {number or 1}; it has {len(lines)}.")
    try:
        value = json.loads(lines[(number or 1) - 1])
        run, columns = _Run.model_validate(value), Columns.model_validate(value)
    except (ValueError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise BenchError(
            f"{name} is no result of SGLang's serving benchmark ({first}); give a file of its --output-file."
        ) from error
    native = run.backend in NATIVE
    requests = columns.requests(name)
    info = run.server_info or {}
    phase = ForeignPhase(
        name="run",
        label="run",
        started=0.0,
        ended=run.duration,
        streams=run.max_concurrency,
        requests=requests,
        succeeded=run.completed,
        failed=sum(bool(request.failure) for request in requests),
        input_tokens=run.total_input_tokens,
        output_tokens=run.total_output_tokens,
        pauses_of="tokens" if native else "events",
        stated={
            "output_rate": run.output_throughput,
            "request_rate": run.request_throughput,
            "acceptance_length": run.accept_length or None,
            **stated_times(value, "itl" if native else "stalls"),
        },
    )
    return Foreign(
        tool="sglang",
        version=None,
        note=_note(native, bool(requests)),
        started=written,
        url="",
        model=str(info.get("served_model_name") or info.get("model_path") or "unknown"),
        load={
            "backend": run.backend,
            "dataset": run.dataset_name,
            "request_rate": _finite(run.request_rate),
            "max_concurrency": run.max_concurrency,
            "input_len": run.random_input_len,
            "output_len": run.random_output_len,
            "range_ratio": run.random_range_ratio,
        },
        phases=(phase,),
        info={"server_info": kept(info)} if info else {},
    )


def _note(native: bool, details: bool) -> str:
    pauses = (
        "Its pauses between tokens are pauses between chunks divided by the tokens of the chunk."
        if native
        else "Its ITL is the pause between chunks, whatever number of tokens a chunk brought; here it is called so."
    )
    times = "TPOT takes the first chunk for one token. When requests were sent is not in the file, nor is a date: the "
    without = "" if details else " It has no single requests, since it was made without --output-details."
    return f"{pauses} {times}date is that of the file.{without}"


def _finite(rate: float | str | None) -> float | str | None:
    return "inf" if isinstance(rate, float) and math.isinf(rate) else rate
