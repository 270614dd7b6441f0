"""The live display, with a clock that the test turns."""

import io
import re
import threading
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from penny_bench.client import Arrival, Failure, StreamRecord
from penny_bench.client.record import FailureKind
from penny_bench.evidence import Gpu, GpuSample, GpuSampler, GpuState
from penny_bench.report import live as module
from penny_bench.report.counters import Counters, Quantiles
from penny_bench.report.live import Live, gpu_text, picture, plain


class Clock:
    """A clock that stands until it is turned."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def good(ttft: float, prompt: int = 100) -> StreamRecord:
    arrivals = (Arrival(ttft, 1), Arrival(ttft + 1, 5))
    return StreamRecord(sent=0.0, ended=ttft + 1, arrivals=arrivals, prompt_tokens=prompt, output_tokens=5)


def bad(kind: FailureKind) -> StreamRecord:
    return StreamRecord(sent=0.0, ended=1.0, failure=Failure(kind, "No."))


def test_quantiles_are_right_within_a_percent() -> None:
    values = np.random.default_rng(4).lognormal(mean=-2, sigma=1.5, size=20_000)
    found = Quantiles()
    for value in values:
        found.add(float(value))
    for share in (0.05, 0.5, 0.95, 0.99):
        assert found.at(share) == pytest.approx(np.quantile(values, share), rel=0.011)
    assert Quantiles().at(0.5) is None


def test_the_rate_is_that_of_the_last_two_seconds() -> None:
    clock = Clock()
    counters = Counters(clock=clock)
    for _ in range(30):  # 3 s of 40 tokens/s in the middle of slots
        clock.now += 0.1
        counters.tokens(4)
    assert counters.state().rate == pytest.approx(40, rel=0.11)  # 8 slots hold 19 to 21 events
    clock.now += 1.0  # then nothing for 1 s
    assert counters.state().rate == pytest.approx(20, rel=0.21)
    clock.now += 5.0
    assert counters.state().rate == 0


def test_a_pause_longer_than_the_ring_leaves_no_old_tokens() -> None:
    clock = Clock()
    counters = Counters(clock=clock)
    counters.tokens(1000)
    clock.now += 100.0
    counters.tokens(8)
    clock.now += 0.25
    assert counters.state().rate == 4.0  # 8 tokens over 2 s


def test_counts_errors_and_time_left() -> None:
    clock = Clock()
    counters = Counters(clock=clock)
    counters.phase("C4", 10)
    for _ in range(5):
        counters.sent()
    counters.ended(good(0.2))
    counters.ended(good(0.4))
    counters.ended(bad("timeout"))
    counters.ended(bad("http"))
    clock.now += 8.0
    state = counters.state()
    assert (state.done, state.failed, state.open) == (2, 2, 1)
    assert state.errors == {"timeout": 1, "http": 1}
    assert state.left == pytest.approx(8.0 / 4 * 6)
    assert state.ttft[0] == pytest.approx(0.2, rel=0.011)
    assert state.ttft[1] == pytest.approx(0.4, rel=0.011)
    counters.phase("C8", None)
    state = counters.state()
    assert (state.phase, state.total, state.done, state.failed, state.left) == ("C8", None, 0, 0, None)


def test_what_is_left_of_a_prefill_follows_from_the_longest_one_before() -> None:
    clock = Clock()
    counters = Counters(clock=clock)
    counters.ended(good(0.5, prompt=100))
    counters.ended(good(10.0, prompt=60_000))  # 6,000 tokens/s
    counters.ended(good(0.1, prompt=200))
    counters.phase("490K", 1)
    counters.sent(480_000)
    clock.now += 30.0
    state = counters.state()
    assert (state.prefill, state.prefill_left) == (30.0, pytest.approx(50.0))
    counters.tokens(1)
    assert counters.state().prefill is None


def test_hooks_from_many_threads_lose_nothing() -> None:
    clock = Clock()
    counters = Counters(clock=clock)

    def work() -> None:
        for _ in range(2000):
            counters.sent()
            counters.tokens(3)
            counters.ended(good(0.1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clock.now += 0.25
    state = counters.state()
    assert (state.done, state.open, state.rate) == (8000, 0, 3 * 8000 / 2)


def test_the_picture_fits_the_terminal() -> None:
    clock = Clock()
    counters = Counters(clock=clock)
    counters.phase("[C4]", 8)
    counters.sent(1000)
    counters.sent(1000)
    counters.ended(good(0.2))
    clock.now += 3.0
    state = counters.state()
    text = picture(state, "GPU 0 412 W 2650 MHz", 200).plain
    for words in (
        "[C4]  ##------------------  1 of 8 ended, 0 failed, 1 open  3 s, about 21 s left",
        "0 tok/s  TTFT p50 ",
        "GPU 0 412 W 2650 MHz",
        "1 request in prefill for 3 s, about 0 ms left",
    ):
        assert words in text
    assert max(map(len, picture(state, "", 40).plain.splitlines())) == 40
    one = plain(replace(state, errors={"http": 2}), "")
    assert "failed: 2 http" in one
    assert "\n" not in one


def test_gpus_are_those_sampled_last() -> None:
    sampler = GpuSampler(None)
    assert gpu_text(sampler) == ""
    sampler.gpus = [Gpu(0, "a", "1"), Gpu(1, "b", "1")]
    for t, watts in ((0.0, 100.0), (0.5, 200.0)):
        sampler.samples += [
            GpuSample(t, 0, GpuState(watts, 2000, None, None)),
            GpuSample(t, 1, GpuState(None, 2100, None, None)),
        ]
    assert gpu_text(sampler) == "GPU 0 200 W 2000 MHz, GPU 1 2100 MHz"


def shown(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> str:
    out = io.StringIO()
    monkeypatch.setattr(module, "REFRESH", 0.01)
    monkeypatch.setattr(module, "PLAIN", 0.01)
    console = Console(file=out, force_terminal=terminal, width=100)
    drawn = threading.Event()

    def seen(text: str) -> int:
        if "1 of 4 ended" in text:  # a picture may be of a moment before
            drawn.set()
        return io.StringIO.write(out, text)

    monkeypatch.setattr(out, "write", seen)
    with Live(console) as live:
        live.phase("C1", 4)
        live.sent()
        live.tokens(3)
        live.ended(good(0.2))
        assert drawn.wait(20)
    return out.getvalue()


def test_a_terminal_is_left_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, terminal=True)
    assert "1 of 4 ended" in text
    assert text.endswith("\x1b[2K") or re.search(r"\x1b\[2K\S*$", text)  # the last thing is an erased line
    assert "\x1b[?25h" in text  # the cursor is back


def test_without_a_terminal_plain_lines_come(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, terminal=False)
    assert "\x1b" not in text
    assert "C1; 1 of 4 ended, 0 failed, 0 open" in text


def test_an_error_within_passes_and_ends_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.active_count()
    with pytest.raises(KeyError), Live(Console(file=io.StringIO())):
        raise KeyError("x")
    assert threading.active_count() == before
