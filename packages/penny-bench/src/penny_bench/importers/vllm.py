"""Results of `vllm bench serve --save-result`, best with `--save-detailed`.

Source: the keys of `vllm/benchmarks/serve.py`. A file has one JSON object.
"""

from __future__ import annotations

import json
import math
from datetime import datetime

from pydantic import BaseModel, ConfigDict, ValidationError

from penny_bench.errors import BenchError
from penny_bench.importers.columns import Columns, stated_times
from penny_bench.importers.foreign import Foreign, ForeignPhase


class _Run(BaseModel):
    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    date: str | None = None
    backend: str | None = None
    endpoint_type: str | None = None
    model_id: str
    num_prompts: int | None = None
    request_rate: float | str | None = None
    burstiness: float | None = None
    max_concurrency: int | None = None
    duration: float
    completed: int
    failed: int | None = None
    total_input_tokens: int | None = None
    total_output_tokens: int | None = None
    request_throughput: float | None = None
    request_goodput: float | None = None
    output_throughput: float | None = None


def read_vllm(name: str, data: bytes, written: datetime) -> Foreign:
    """Read a result file.

    Args:
        name: of the file.
        data: its bytes.
        written: when it was written last, where it tells no date itself.

    Raises:
        BenchError: it is no such file.
    """
    try:
        value = json.loads(data)
        run, columns = _Run.model_validate(value), Columns.model_validate(value)
    except (ValueError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise BenchError(
            f"{name} is no result of vLLM's serving benchmark ({first}); give a file of its --save-result."
        ) from error
    requests = columns.requests(name)
    failed = sum(bool(request.failure) for request in requests) if run.failed is None else run.failed
    phase = ForeignPhase(
        name="run",
        label="run",
        started=0.0,
        ended=run.duration,
        streams=run.max_concurrency,
        requests=requests,
        succeeded=run.completed,
        failed=failed,
        input_tokens=run.total_input_tokens,
        output_tokens=run.total_output_tokens,
        pauses_of="events",
        stated={
            "output_rate": run.output_throughput,
            "request_rate": run.request_throughput,
            "goodput": run.request_goodput,
            **stated_times(value, "stalls"),
        },
    )
    rate = run.request_rate
    started = _date(run.date)
    return Foreign(
        tool="vllm",
        version=None,
        note=_note(started is not None, bool(requests)),
        started=started or written,
        url="",
        model=run.model_id,
        load={
            "backend": run.endpoint_type or run.backend,
            "prompts": run.num_prompts,
            "request_rate": "inf" if isinstance(rate, float) and math.isinf(rate) else rate,
            "burstiness": run.burstiness,
            "max_concurrency": run.max_concurrency,
        },
        phases=(phase,),
    )


def _note(dated: bool, details: bool) -> str:
    lines = [
        "Its ITL is the pause between chunks, whatever number of tokens a chunk brought; here it is called so. TPOT "
        "takes the first chunk for one token.",
        "Its date names no time zone and is taken for that of this machine."
        if dated
        else "It tells no date, so the date is that of the file.",
    ]
    if not details:
        lines.append("It has no single requests, since it was made without --save-detailed.")
    return " ".join(lines)


def _date(text: str | None) -> datetime | None:
    try:
        return datetime.strptime(text or "", "%Y%m%d-%H%M%S").astimezone()
    except ValueError:
        return None
