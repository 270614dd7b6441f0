"""A run on the terminal while it goes on."""

from __future__ import annotations

import threading
from types import TracebackType

from rich.console import Console
from rich.live import Live as RichLive
from rich.text import Text

from penny_bench.client import StreamRecord
from penny_bench.evidence import GpuSampler
from penny_bench.report.counters import Counters, State
from penny_bench.report.units import count, number, time

REFRESH = 0.5
"""Pause between two pictures on a terminal, s."""
PLAIN = 15.0
"""Pause between two lines where there is no terminal, s."""
BAR = 20
LONG_PREFILL = 2.0
"""From so long a prefill on, it is shown, s."""


class Live:
    """Shows how a run goes; `with Live(console) as live:`. Its hooks may be called from any thread.

    On a terminal a few lines are drawn anew twice a second and removed at the end. Elsewhere a plain line is
    printed every 15 s.
    """

    def __init__(self, console: Console, total: int | None = None, gpu: GpuSampler | None = None) -> None:
        """`total` requests are expected; of `gpu`, power and clock are shown."""
        self._console = console
        self._counters = Counters(total)
        self._gpu = gpu
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="penny-bench live", daemon=True)
        self._screen: RichLive | None = None

    def phase(self, name: str, total: int | None = None) -> None:
        """A phase begins, with `total` requests if that is known."""
        self._counters.phase(name, total)

    def sent(self, prompt_tokens: int | None = None) -> None:
        """A request is sent; with the length of its prompt, what is left of a long prefill can be told."""
        self._counters.sent(prompt_tokens)

    def tokens(self, n: int) -> None:
        """`n` tokens have come."""
        self._counters.tokens(n)

    def ended(self, record: StreamRecord) -> None:
        """A request has ended, well or not."""
        self._counters.ended(record)

    def __enter__(self) -> Live:
        if self._console.is_terminal:
            self._screen = RichLive(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._screen.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._screen:
            self._screen.stop()

    def _work(self) -> None:
        while not self._stop.wait(REFRESH if self._screen else PLAIN):
            state = self._counters.state()
            power = gpu_text(self._gpu)
            if self._screen:
                self._screen.update(picture(state, power, self._console.width), refresh=True)
            else:
                self._console.print(plain(state, power), markup=False, highlight=False, soft_wrap=True)


def picture(state: State, gpu: str, width: int) -> Text:
    """Two to four lines, cut to the width of the terminal."""
    lines = [
        f"{state.phase or 'run'}  {_bar(state)}  {_progress(state)}  {_times(state)}",
        _rates(state, gpu),
    ]
    if state.errors:
        lines.append("failed: " + _errors(state))
    if told := _prefill(state):
        lines.append(told)
    return Text("\n".join(line[:width] for line in lines), no_wrap=True)


def plain(state: State, gpu: str) -> str:
    """One line."""
    parts = [state.phase or "run", _progress(state), _times(state), _rates(state, gpu)]
    if state.errors:
        parts.append("failed: " + _errors(state))
    return "; ".join(filter(None, [*parts, _prefill(state)]))


def gpu_text(gpu: GpuSampler | None) -> str:
    """Power and clock of each GPU as sampled last; nothing without GPUs."""
    if gpu is None or not gpu.gpus:
        return ""
    parts = []
    for sample in gpu.samples[-len(gpu.gpus) :]:
        state = sample.state
        told = [
            f"{state.power:.0f} W" if state.power is not None else "",
            f"{state.graphics_clock} MHz" if state.graphics_clock is not None else "",
        ]
        parts.append(f"GPU {sample.gpu} {' '.join(filter(None, told))}".strip())
    return ", ".join(parts)


def _bar(state: State) -> str:
    if not state.total:
        return "-" * BAR
    full = min(BAR, BAR * (state.done + state.failed) // state.total)
    return "#" * full + "-" * (BAR - full)


def _progress(state: State) -> str:
    ended = state.done + state.failed
    of = "" if state.total is None else f" of {state.total:,}"
    return f"{ended:,}{of} ended, {state.failed:,} failed, {state.open:,} open"


def _times(state: State) -> str:
    left = "" if state.left is None else f", about {time(state.left)} left"
    return f"{time(state.elapsed)}{left}"


def _rates(state: State, gpu: str) -> str:
    p50, p95 = state.ttft
    ttft = "" if p50 is None else f"TTFT p50 {time(p50)}, p95 {time(p95)}"
    return "  ".join(filter(None, [f"{number(state.rate)} tok/s", ttft, gpu]))


def _errors(state: State) -> str:
    return ", ".join(f"{n:,} {kind}" for kind, n in sorted(state.errors.items()))


def _prefill(state: State) -> str:
    if state.prefill is None or state.prefill < LONG_PREFILL:
        return ""
    left = "" if state.prefill_left is None else f", about {time(state.prefill_left)} left"
    return f"{count(state.open, 'request')} in prefill for {time(state.prefill)}{left}"
