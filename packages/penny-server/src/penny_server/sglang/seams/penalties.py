"""Penalties on time and in one order, with and without drafts.

With its overlapping schedule stock prepares a step before the result of the last one is processed, and counts the
token that it knows then: one too early, at first the prompt's last. Without overlap it applies its penalties in the
order of a set of classes, which differs between processes. Here the step counts when its last token is known, and
additive penalties come before repetition, as in stock's overlapping form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Seam

FEATURE = "penalties"
OVERLAP = "sglang.srt.managers.scheduler.Scheduler.is_disable_overlap_for_batch"
COUNT = "sglang.srt.managers.schedule_batch.ScheduleBatch.cumulate_penalty_output_tokens"
COPY = "sglang.srt.sampling.sampling_batch_info.SamplingBatchInfo.copy_for_forward"
APPLY = "sglang.srt.sampling.penaltylib.orchestrator.BatchedPenalizerOrchestrator.apply"
DUE = "_penny_due"


def wanted(reqs: Sequence[Any]) -> bool:
    """Whether a request of the batch has penalties or a least number of new tokens."""
    return any(
        p.presence_penalty or p.frequency_penalty or p.repetition_penalty != 1.0 or p.min_new_tokens > 0
        for p in (req.sampling_params for req in reqs)
    )


def _in_turn(original: Callable[..., bool], scheduler: Any, batch: Any, last_batch: Any) -> bool:
    waits = (
        batch and batch.forward_mode.is_decode() and len(scheduler.result_queue) > 0 and wanted(batch.reqs)
    )
    return bool(waits) or original(scheduler, batch, last_batch)


def _later(original: Callable[..., None], batch: Any) -> None:
    if batch.enable_overlap:
        setattr(batch.sampling_info, DUE, partial(original, batch))
    else:
        original(batch)


def _count_now(original: Callable[..., Any], info: Any) -> Any:
    due = vars(info).pop(DUE, None)
    if due is not None:
        due()
    return original(info)


def _in_order(
    original: Callable[..., None], orchestrator: Any, logits: Any, repeat: int | None = None
) -> None:
    if repeat is not None:
        original(orchestrator, logits, repeat)
        return
    for scaling in (False, True):
        for penalizer in orchestrator.penalizers.values():
            if penalizer.is_multiplicative is scaling:
                penalizer.apply(logits)


def around(
    feature: str, name: str, target: str, digest: str, summary: str, hook: Any, needs: tuple[str, ...] = ()
) -> Seam:
    """A seam of the scheduler around ``target``; it has taken when ``needs``, other seams' targets, are hooked too."""
    return Seam(
        f"{feature}.{name}",
        feature,
        target,
        digest,
        summary,
        "around",
        hook,
        lambda: all(hooked(place) for place in (target, *needs)),
        ("scheduler",),
    )


SEAMS = (
    around(
        FEATURE,
        "in-turn",
        OVERLAP,
        "9d2b6455eb400d56",
        "waits for the step before, whose tokens a penalty counts",
        _in_turn,
    ),
    around(
        FEATURE, "due", COUNT, "dce2467c859a7049", "puts off counting until the last token is known", _later
    ),
    around(
        FEATURE,
        "count",
        COPY,
        "a009750025c965f2",
        "counts the last token before the step that it penalises",
        _count_now,
    ),
    around(
        FEATURE, "order", APPLY, "d040b541c113ad02", "applies additive penalties before repetition", _in_order
    ),
)
