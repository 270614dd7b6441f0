"""Acceptance of drafts held against its calibration while serving; observes, changes nothing.

Stock shows an acceptance length and leaves the reading of it to people: a wrong draft, token map or verification then
serves unnoticed, slower or no longer lossless.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Seam

if TYPE_CHECKING:
    from penny_server.sglang.acceptance import Watch

RESULTS = (
    "sglang.srt.managers.scheduler_components.batch_result_processor.SchedulerBatchResultProcessor."
    "_resolve_spec_v2_tokens"
)


@cache
def the_watch() -> Watch:
    """The watch of this process, made for its first result."""
    from sglang.srt.runtime_context import get_model, get_observability, get_spec

    from penny_server.sglang.acceptance import watch_of

    return watch_of(get_spec(), get_model().model_path, get_observability().enable_metrics)


def _observe(found: Any, processor: Any, result: Any, batch: Any) -> None:
    from sglang.srt.runtime_context import get_parallel

    width = result.speculative_num_draft_tokens - 1
    if width < 1 or get_parallel().tp_rank != 0:
        return
    # A request that ended while this forward was under way was verified beyond its end.
    alive = (
        (hash(req.rid), accepted)
        for req, accepted in zip(batch.reqs, result.num_correct_drafts_per_req_cpu, strict=True)
        if not (req.is_retracted or req.finished())
    )
    the_watch().observe(width, tuple(alive))


SEAMS = (
    Seam(
        "spec-guard.results",
        "spec-guard",
        RESULTS,
        "d79752842869a4d7",
        "watches what is accepted of the drafts, and warns when it is far from its calibration",
        "after",
        _observe,
        lambda: hooked(RESULTS),
        ("scheduler",),
    ),
)
