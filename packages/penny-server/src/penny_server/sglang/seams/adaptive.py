"""Draft widths that follow acceptance, for NEXTN (stock's adaptive steps with our policy) and for DFlash2 (ours).

The width changes at the start of a decode forward only. All widths are built at the start of the server, each with its
graphs; pools are sized for the launch width, which must be the largest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Kind, Seam

if TYPE_CHECKING:
    from penny_server.sglang.widths import Widths
    from penny_spec.adaptive import Slots

FEATURE = "adaptive"
SPECULATIVE = "sglang.srt.speculative"
CONFIG = f"{SPECULATIVE}.adaptive_spec_params._load_adaptive_config"
CONTROLLER = f"{SPECULATIVE}.adaptive_runtime_state.AdaptiveController.__init__"
RESULTS = (
    "sglang.srt.managers.scheduler_components.batch_result_processor.SchedulerBatchResultProcessor."
    "_resolve_spec_v2_tokens"
)
DFLASH = f"{SPECULATIVE}.dflash_worker_v2.DFlashWorkerV2"


def _load_config(original: Callable[..., Any], cfg_path: str | None) -> Any:
    """Stock sizes its buffers by these candidates."""
    from penny_server.sglang.widths import ENV

    text = os.environ.get(ENV)
    if cfg_path is not None or not text:
        return original(cfg_path)
    entries = {int(size): {"candidate_steps": widths} for size, widths in json.loads(text).items()}
    return {str(size): entry for size, entry in entries.items()}, entries


def _widths(slots: Slots, launch: int) -> Widths:
    from sglang.srt.runtime_context import get_observability

    from penny_server.sglang.widths import Widths, shown

    return Widths(slots, launch, shown(launch, get_observability().enable_metrics))


def _use_widths(original: Callable[..., None], controller: Any, worker: Any, policy: Any) -> None:
    from penny_server.sglang.widths import asked_slots

    slots = asked_slots()
    original(controller, worker, _widths(slots, worker.speculative_num_steps) if slots else policy)


def _observe(found: Any, processor: Any, result: Any, batch: Any) -> None:
    from penny_server.sglang.widths import Widths

    controller = getattr(processor.model_worker, "adaptive_controller", None)
    if controller is not None and isinstance(controller.params, Widths):
        controller.params.observe(
            result.speculative_num_draft_tokens - 1, result.num_correct_drafts_per_req_cpu
        )


def _build_dflash(result: Any, worker: Any) -> None:
    """After the worker's own graphs. Building another width captures with the same function."""
    from penny_server.sglang.widths import asked_slots

    slots = asked_slots()
    if slots is None or "adaptive_controller" in vars(worker):
        return
    from sglang.srt.model_executor.cuda_graph_config import Backend, Phase, check_cuda_graph_backend
    from sglang.srt.runtime_context import get_exec
    from sglang.srt.speculative.adaptive_runtime_state import AdaptiveController

    from penny_server.sglang.dflash_widths import DFlashWidths

    widths = DFlashWidths(worker)
    controller = AdaptiveController(widths, policy=None)  # `_use_widths` gives it ours
    worker.adaptive_controller = controller
    controller.register(widths.current)
    graphs = worker.device != "cpu" and not check_cuda_graph_backend(Phase.DECODE, Backend.DISABLED)
    controller.init_states(get_exec().graph.cuda_graph_bs_decode if graphs else None)


def _choose_dflash(worker: Any, batch: Any, *args: Any, **kwargs: Any) -> None:
    controller = vars(worker).get("adaptive_controller")
    mode = batch.forward_mode
    if controller is not None and not (mode.is_extend() or batch.is_extend_in_batch or mode.is_idle()):
        controller.activate_step_by_batch(len(batch.seq_lens))


def _seam(name: str, target: str, digest: str, summary: str, kind: Kind, hook: Callable[..., Any]) -> Seam:
    return Seam(
        f"{FEATURE}.{name}", FEATURE, target, digest, summary, kind, hook, lambda: hooked(target),
        ("main", "scheduler") if name == "candidates" else ("scheduler",),
    )  # fmt: skip


SEAMS = (
    _seam(
        "candidates",
        CONFIG,
        "7e926ef54fc00034",
        "takes the candidate widths from the profile",
        "around",
        _load_config,
    ),
    _seam(
        "policy",
        CONTROLLER,
        "2f36bd0bb0fc2b6c",
        "chooses NEXTN's width with penny-spec's policy",
        "around",
        _use_widths,
    ),
    _seam(
        "observe",
        RESULTS,
        "d79752842869a4d7",
        "tells the policy what was accepted, and at which width",
        "after",
        _observe,
    ),
    _seam(
        "dflash-states",
        f"{DFLASH}.init_cuda_graphs",
        "63c10712f6a17fd4",
        "builds DFlash2 for every candidate width",
        "after",
        _build_dflash,
    ),
    _seam(
        "dflash-boundary",
        f"{DFLASH}.forward_batch_generation",
        "f42a3bb18adba2a5",
        "changes DFlash2's width at the start of a decode forward",
        "before",
        _choose_dflash,
    ),
)
