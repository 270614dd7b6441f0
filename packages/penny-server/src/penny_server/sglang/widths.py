"""How many tokens the server drafts next: `penny_spec.adaptive.Ema` behind the interface of stock's controller."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence

from penny_spec.adaptive import Ema, Slots, Step

ENV = "PENNY_ADAPTIVE"
"""Draft tokens by batch size as JSON, ``{"1": [3, 7], "2": [3]}``: a batch uses the largest size not above its own."""


def shown(launch: int, metrics: bool) -> Callable[[int], None]:
    """Shows each width on the server's ``/metrics`` page, if it has one, the first included."""
    if not metrics:
        return lambda width: None
    from prometheus_client import Counter, Gauge

    now = Gauge("penny_spec_width", "Draft tokens of the newest forward.", multiprocess_mode="mostrecent")
    switches = Counter("penny_spec_width_switches", "Forwards whose width differs from the one before.")
    now.set(launch)

    def show(width: int) -> None:
        now.set(width)
        switches.inc()

    return show


def asked_slots() -> Slots | None:
    """The candidates that the profile asks for; None without adaptive widths."""
    text = os.environ.get(ENV)
    if not text:
        return None
    return Slots(tuple(sorted((int(size), tuple(widths)) for size, widths in json.loads(text).items())))


class Widths:
    """The policy of one server (stock's ``AdaptiveSpecPolicy``).

    Stock's own policy counts a result for the width of the moment, although overlapped results come one forward
    late, and switches while they are processed. This one is told with each result which width it was verified at, and
    answers only where stock asks at the start of a decode forward.
    """

    def __init__(self, slots: Slots, launch: int, changed: Callable[[int], None]) -> None:
        """``changed`` is told every width that differs from the one before, the first of which is ``launch``."""
        self._ema = Ema(slots, launch)
        self._state = self._ema.start()
        self._graph_sizes: list[int] | None = None
        self._width = launch
        self._changed = changed

    @property
    def candidate_steps(self) -> list[int]:
        """Every width that may be chosen, rising."""
        return list(self._ema.widths)

    def set_cuda_graph_bs(self, cuda_graph_bs: list[int] | None) -> None:
        """Notes the batch sizes that graphs are captured for; None without graphs."""
        self._graph_sizes = sorted(cuda_graph_bs) if cuda_graph_bs else None

    def cuda_graph_bs_for_step(self, step: int) -> list[int] | None:
        """The captured batch sizes that some batch drafting ``step`` tokens is padded to; None without graphs."""
        if self._graph_sizes is None:
            return None
        before, found = 0, []
        for size in self._graph_sizes:
            batches = range(before + 1, size + 1)
            if any(step in self._candidates(batch) for batch in batches):
                found.append(size)
            before = size
        return found

    def get_steps_for_batch(self, batch_size: int) -> int:
        """Draft tokens of the next forward of ``batch_size`` requests."""
        width = self._ema.width(self._state, batch_size)
        if width != self._width:
            self._width = width
            self._changed(width)
        return width

    def on_verify_complete(self, num_correct_drafts_per_req: list[int], batch_size: int) -> None:
        """Nothing: stock does not say here which width the drafts had, and would switch at once."""

    def observe(self, width: int, accepted: Sequence[int]) -> None:
        """Learns from a forward that verified ``width`` draft tokens of each request, of which ``accepted`` were."""
        if accepted:
            # `Ema` does not look at the draft's confidence, which stock's greedy drafts do not compute.
            self._state = self._ema.observe(self._state, Step(width, tuple(accepted), (1.0,) * len(accepted)))

    def _candidates(self, batch_size: int) -> tuple[int, ...]:
        slots = self._ema.slots
        return slots.floors[slots.index(batch_size)][1]
