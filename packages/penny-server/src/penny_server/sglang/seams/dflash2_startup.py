"""A DFlash2 draft runs folded and fused on a GPU, or the server does not start; stock logs why not and runs slower."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from penny_server.events import emit
from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Kind, Seam

if TYPE_CHECKING:
    from penny_server.sglang.dflash_startup import Failures

FEATURE = "dflash2-startup"
WORKER = "sglang.srt.speculative.dflash_worker_v2.DFlashWorkerV2"
EXIT_START_FAILED = 5


class SlowDraftError(RuntimeError):
    """The draft would run in a slower way than its profile promises."""


def _assert_fast(result: Any, worker: Any) -> None:
    """Raises SlowDraftError."""
    from sglang.srt.model_executor.cuda_graph_config import Backend, Phase, check_cuda_graph_backend

    from penny_server.sglang.dflash_startup import refusal

    message = refusal(worker, not check_cuda_graph_backend(Phase.DECODE, Backend.DISABLED))
    if message:
        emit("graphs", "fail", message=message, exit_code=EXIT_START_FAILED)
        raise SlowDraftError(message)


@cache
def the_failures() -> Failures:
    """Those of this process."""
    from sglang.srt.runtime_context import get_observability

    from penny_server.sglang.dflash_startup import Failures

    return Failures(bool(get_observability().enable_metrics))


def _count(original: Callable[..., None], worker: Any, **given: Any) -> None:
    try:
        original(worker, **given)
    except Exception:
        the_failures().add()
        logging.getLogger(__name__).exception(
            "penny: fused writing of the draft's KV failed; it is written layer by layer from now on, more slowly"
        )
        raise


def _seam(name: str, method: str, digest: str, summary: str, kind: Kind, hook: Callable[..., Any]) -> Seam:
    target = f"{WORKER}.{method}"
    return Seam(
        f"{FEATURE}.{name}", FEATURE, target, digest, summary, kind, hook, lambda: hooked(target),
        ("scheduler",),
    )  # fmt: skip


SEAMS = (
    _seam(
        "fast",
        "init_cuda_graphs",
        "63c10712f6a17fd4",
        "ends the start on a GPU where the draft's head is not in its graph or its KV is not written at once",
        "after",
        _assert_fast,
    ),
    _seam(
        "fused",
        "_append_target_hidden_fused",
        "74d9f183d69a12be",
        "counts and logs failures of fused KV writing, after which stock runs slower",
        "around",
        _count,
    ),
)
