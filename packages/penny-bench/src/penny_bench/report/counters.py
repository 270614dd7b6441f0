"""What a live display counts. Every hook is a few additions, so that a run does not feel them."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from penny_bench.client import StreamRecord

SLOT = 0.25
"""Width of the slots in which tokens are counted, s."""
WINDOW = 8
"""Full slots over which the current rate is taken."""
STEP = 50
"""Bins of a latency for each factor of e: a quantile is right within 1 %."""


class Quantiles:
    """Quantiles of positive values in bins of equal ratio."""

    def __init__(self) -> None:
        self.count = 0
        self._bins: Counter[int] = Counter()

    def add(self, value: float) -> None:
        """Take in a value; one that is not positive counts as the smallest."""
        self.count += 1
        self._bins[math.floor(math.log(max(value, 1e-9)) * STEP)] += 1

    def at(self, share: float) -> float | None:
        """The value below which `share` of all are; None without any."""
        left = share * self.count
        for index in sorted(self._bins):
            left -= self._bins[index]
            if left <= 0 and self.count:
                return math.exp((index + 0.5) / STEP)
        return None


@dataclass(frozen=True)
class State:
    """All that a display shows at one moment.

    Attributes:
        phase: its name.
        total: requests of the phase; None if that is open.
        done, failed, open: requests of the phase that ended well, that failed, that are under way.
        elapsed: since the phase began, s.
        left: about how long the phase will still take, s; None where nothing tells.
        rate: output tokens/s over the last 2 s.
        ttft: p50 and p95 of the phase, s.
        errors: failed requests of the phase by kind.
        prefill: how long nothing but prefill has been going on, s; None if tokens come.
        prefill_left: about how long that will still take, s; None where no prefill rate is known.
    """

    phase: str
    total: int | None
    done: int
    failed: int
    open: int
    elapsed: float
    left: float | None
    rate: float
    ttft: tuple[float | None, float | None]
    errors: dict[str, int]
    prefill: float | None
    prefill_left: float | None


class Counters:
    """The hooks of a run and the state that follows. May be called from any thread."""

    def __init__(self, total: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._prefill_rate: tuple[int, float] | None = None  # longest prompt so far, its tokens/s
        self._begin("", total)

    def _begin(self, name: str, total: int | None) -> None:
        self._phase, self._total = name, total
        self._start = self._clock()
        self._sent = self._done = 0
        self._errors: Counter[str] = Counter()
        self._ttft = Quantiles()
        self._slots = [0] * (WINDOW + 1)
        self._slot = int(self._start / SLOT)
        self._last_sent: float | None = None
        self._last_prompt: int | None = None
        self._quiet = False  # nothing has come since the last request was sent

    def phase(self, name: str, total: int | None = None) -> None:
        """A phase begins: all counts but the prefill rate start again."""
        with self._lock:
            self._begin(name, total)

    def sent(self, prompt_tokens: int | None = None) -> None:
        """A request is sent; with the length of its prompt, what is left of a long prefill can be told."""
        with self._lock:
            self._sent += 1
            self._last_sent, self._last_prompt, self._quiet = self._clock(), prompt_tokens, True

    def tokens(self, n: int) -> None:
        """`n` tokens have come."""
        slot = int(self._clock() / SLOT)
        with self._lock:
            if slot != self._slot:
                self._turn(slot)
            self._slots[slot % len(self._slots)] += n
            self._quiet = False

    def ended(self, record: StreamRecord) -> None:
        """A request has ended, well or not."""
        with self._lock:
            if record.failure:
                self._errors[record.failure.kind] += 1
                return
            self._done += 1
            ttft, prompt = record.ttft, record.prompt_tokens
            if ttft is None:
                return
            self._ttft.add(ttft)
            if ttft > 0 and prompt and (self._prefill_rate is None or prompt > self._prefill_rate[0]):
                self._prefill_rate = (prompt, prompt / ttft)

    def state(self) -> State:
        """What is known now."""
        now = self._clock()
        with self._lock:
            self._turn(int(now / SLOT))
            failed = sum(self._errors.values())
            ended = self._done + failed
            elapsed = now - self._start
            left = None
            if self._total is not None and ended:
                left = elapsed / ended * max(0, self._total - ended)
            prefill = prefill_left = None
            if self._quiet and self._last_sent is not None and self._sent > ended:
                prefill = now - self._last_sent
                if self._last_prompt and self._prefill_rate:
                    prefill_left = max(0.0, self._last_prompt / self._prefill_rate[1] - prefill)
            current = self._slot % len(self._slots)
            full = sum(self._slots) - self._slots[current]
            return State(
                phase=self._phase,
                total=self._total,
                done=self._done,
                failed=failed,
                open=self._sent - ended,
                elapsed=elapsed,
                left=left,
                rate=full / (WINDOW * SLOT),
                ttft=(self._ttft.at(0.5), self._ttft.at(0.95)),
                errors=dict(self._errors),
                prefill=prefill,
                prefill_left=prefill_left,
            )

    def _turn(self, slot: int) -> None:
        """Empty the slots between the last one and this one."""
        for passed in range(max(self._slot + 1, slot - len(self._slots) + 1), slot + 1):
            self._slots[passed % len(self._slots)] = 0
        self._slot = slot
