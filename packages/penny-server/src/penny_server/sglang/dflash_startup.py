"""Whether a DFlash worker runs as it is measured: its head in the draft's graph, its layers' KV written at once."""

from __future__ import annotations

from typing import Any


def has_graph(runner: Any) -> bool:
    """Whether the draft's runner captured decode graphs; where it did not, stock leaves its eager runner there."""
    return runner.decode_cuda_graph_runner not in (None, runner.eager_runner)


def refusal(worker: Any, graphs: bool) -> str | None:
    """The sentence for a ``DFlashWorkerV2`` after its graphs were captured; None when it is as fast as it can be.

    Args:
        worker: the worker. On a CPU neither way exists, and nothing is asked of it.
        graphs: whether the server was started with decode graphs.
    """
    if not str(worker.device).startswith("cuda"):
        return None
    slow = []
    if graphs and worker._draft_sampler is None:
        slow.append("the draft's head is not folded into its graph")
    elif graphs and not has_graph(worker.draft_model_runner):
        slow.append("no graph of the draft was captured")
    if worker._fused_kv_helper is None:
        slow.append("the draft's KV is written layer by layer")
    if not slow:
        return None
    return (
        f"DFlash would run slowly: {' and '.join(slow)}. The lines with DFLASH in the server's log say why: too little "
        "memory left for graphs, for example, or a quantised head. Correct that, or start a profile whose features do "
        "not name dflash2-startup."
    )


class Failures:
    """Counts and logs each time that fused KV writing failed; stock goes on layer by layer and says so once."""

    def __init__(self, metrics: bool) -> None:
        """``metrics``: whether the server has a ``/metrics`` page to count on."""
        self.number = 0
        self._counter: Any = None
        if metrics:
            from prometheus_client import Counter

            self._counter = Counter(
                "penny_spec_fused_kv_failures", "Times that the draft's fused KV writing failed."
            )

    def add(self) -> None:
        """One more."""
        self.number += 1
        if self._counter is not None:
            self._counter.inc()
