"""Loads: schedules worked out by hand, pacing on a virtual clock, latencies of records made by hand."""

import asyncio
import math
import selectors
from itertools import islice, pairwise
from pathlib import Path
from statistics import fmean, stdev

import pytest

from penny_bench.client import Arrival, Failure, StreamRecord
from penny_bench.errors import BenchError
from penny_bench.load import (
    Closed,
    Constant,
    Distribution,
    Gamma,
    OpenLoad,
    Poisson,
    Ramp,
    Slo,
    Slot,
    Trace,
    cache_use,
    drive_closed,
    drive_open,
    due,
    latencies,
    parse_load,
    summarise_run,
)


def times(load: OpenLoad, count: int, seed: int = 0) -> list[float]:
    return [slot.t for slot in islice(load.slots(seed), count)]


# ---- schedules


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (Constant(4.0), [0.0, 0.25, 0.5, 0.75]),
        # rate 1 + t for 2 s, then 3: t + t**2 / 2 = i
        (Ramp(1.0, 3.0, 2.0), [0.0, math.sqrt(3) - 1, math.sqrt(5) - 1, math.sqrt(7) - 1, 2.0, 2 + 1 / 3]),
        # rate t for 2 s, then 2: t**2 / 2 = i
        (Ramp(0.0, 2.0, 2.0), [0.0, math.sqrt(2), 2.0, 2.5, 3.0]),
        # rate 3 - t for 2 s, then 1: 3 t - t**2 / 2 = i
        (Ramp(3.0, 1.0, 2.0), [0.0, 3 - math.sqrt(7), 3 - math.sqrt(5), 3 - math.sqrt(3), 2.0, 3.0]),
        (Ramp(5.0, 5.0, 1.0), [0.0, 0.2, 0.4]),
    ],
)
def test_schedules_with_a_formula(load: OpenLoad, expected: list[float]) -> None:
    assert times(load, len(expected)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("load", "cv"),
    [(Poisson(5.0), 1.0), (Gamma(5.0), 1.0), (Gamma(5.0, 2.0), 2.0), (Gamma(5.0, 0.25), 0.25)],
)
def test_random_gaps_have_their_mean_and_variation(load: OpenLoad, cv: float) -> None:
    n = 20_000
    gaps = [b - a for a, b in pairwise([0.0, *times(load, n, seed=3)])]
    assert min(gaps) >= 0
    assert fmean(gaps) == pytest.approx(0.2, abs=4 * 0.2 * cv / math.sqrt(n))  # four standard errors
    assert stdev(gaps) / fmean(gaps) == pytest.approx(cv, rel=0.06)


def test_gaps_of_poisson_are_exponential() -> None:
    gaps = [b - a for a, b in pairwise([0.0, *times(Poisson(2.0), 20_000, seed=1)])]
    for length in (0.1, 0.5, 1.5):
        assert sum(gap > length for gap in gaps) / len(gaps) == pytest.approx(
            math.exp(-2 * length), abs=0.015
        )


def test_a_seed_names_a_schedule() -> None:
    for load in (Poisson(1.0), Gamma(1.0, 3.0)):
        assert times(load, 9, seed=5) == times(load, 9, seed=5)
        assert times(load, 9, seed=5) != times(load, 9, seed=6)


def test_requests_and_duration_end_a_schedule() -> None:
    assert len(list(due(Constant(10.0), 0, 7, None))) == 7
    assert len(list(due(Constant(10.0), 0, None, 0.95))) == 10  # 0.0 to 0.9
    assert len(list(due(Constant(10.0), 0, 7, 0.35))) == 4


# ---- as written


@pytest.mark.parametrize(
    ("text", "load"),
    [
        ("closed:concurrency=8", Closed(8)),
        ("closed:concurrency=8,ramp_up=2.5", Closed(8, 2.5)),
        ("constant:rate=0.5", Constant(0.5)),
        ("poisson:rate=4", Poisson(4.0)),
        ("gamma:rate=4", Gamma(4.0, 1.0)),
        ("gamma:cv=2,rate=4", Gamma(4.0, 2.0)),
        ("gamma:rate=4,burstiness=0.25", Gamma(4.0, 2.0)),
        ("ramp:from=1,to=10,over=60", Ramp(1.0, 10.0, 60.0)),
    ],
)
def test_loads_as_written(text: str, load: object) -> None:
    assert parse_load(text) == load


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("uniform:rate=4", "There is no load 'uniform'; the forms are closed:concurrency=8"),
        ("poisson", "The load 'poisson' needs rate"),
        ("poisson:rate=many", "has rate = 'many'; give a number"),
        ("poisson:rate=0", "rate is 0; give a number above 0"),
        ("poisson:rate=nan", "rate is nan; give a number above 0"),
        ("poisson:rate", "has the part 'rate'; write name=value"),
        ("poisson:rate=1,rate=2", "has 'rate' twice"),
        ("poisson:rate=1,cv=2", "has no setting 'cv'"),
        ("gamma:rate=1,cv=2,burstiness=1", "has both cv and burstiness"),
        ("gamma:rate=1,burstiness=0", "burstiness is 0"),
        ("closed:concurrency=0", "concurrency is 0; give at least 1"),
        ("closed:concurrency=2,ramp_up=-1", "ramp_up is -1; give seconds of at least 0"),
        ("closed:concurrency=1.5", "concurrency is 1.5; give a whole number"),
        ("ramp:from=1,to=0,over=3", "end is 0; give a number above 0"),
        ("trace:speed=2", "needs file"),
        ("trace:file=no/such.jsonl", "cannot be read"),
    ],
)
def test_loads_that_are_none(text: str, words: str) -> None:
    with pytest.raises(BenchError) as caught:
        parse_load(text)
    assert words in str(caught.value)


def test_trace(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(
        '{"t": 100.0, "prompt_tokens": 9, "output_tokens": 5}\n\n'
        '{"t": 101, "user": "x"}\n{"t": 103.5, "output_tokens": 2}\n'
    )
    slots = [Slot(0.0, 9, 5), Slot(0.5), Slot(1.75, None, 2)]
    load = parse_load(f"trace:file={path},speed=2")
    assert isinstance(load, Trace)
    assert (load.name, list(load.slots(0))) == ("requests.jsonl", slots)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no request"),
        ("nonsense", "Line 1 of the trace x.jsonl is no JSON"),
        ("[1]", "Line 1 of the trace x.jsonl has no time"),
        ('{"t": 1}\n{"t": "2"}', "Line 2 of the trace x.jsonl has no time"),
        ('{"t": NaN}', "has no time"),
        ('{"t": 1}\n{"t": 0.5}', "Line 2 of the trace x.jsonl has t = 0.5, before the line above it"),
        ('{"t": 1, "output_tokens": 0}', "has output_tokens = 0"),
        ('{"t": 1, "prompt_tokens": 1.5}', "has prompt_tokens = 1.5"),
    ],
)
def test_traces_that_are_wrong(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(BenchError) as caught:
        Trace.read(path)
    assert words in str(caught.value)


# ---- pacing, on an event loop whose time is virtual


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its clock moves only while the loop would have slept, and then by exactly that."""

    def __init__(self) -> None:
        selector = selectors.SelectSelector()
        super().__init__(selector)
        self.now = 0.0
        select = selector.select

        def jump(timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            self.now += timeout or 0.0
            return select(0)

        selector.select = jump  # type: ignore[method-assign]

    def time(self) -> float:
        return self.now


def starts(load: Closed | list[Slot], service: list[float], duration: float | None = None) -> list[float]:
    """When each request was sent, if request `i` takes `service[i]` seconds."""
    sent: dict[int, float] = {}

    async def run() -> None:
        clock = asyncio.get_running_loop().time

        async def send(number: int) -> None:
            sent[number] = clock()
            await asyncio.sleep(service[number])

        def prepare(number: int, slot: Slot) -> int:
            return number

        if isinstance(load, Closed):
            await drive_closed(load, prepare, send, clock, len(service), duration)
        else:
            await drive_open(load, prepare, send, clock)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(run())
    return [sent[number] for number in sorted(sent)]


def test_open_loads_do_not_wait_for_answers() -> None:
    slots = list(due(Constant(2.0), 0, 5, None))
    assert starts(slots, [100.0] * 5) == pytest.approx([0.0, 0.5, 1.0, 1.5, 2.0], abs=1e-6)


def test_slots_of_one_moment_start_together() -> None:
    assert starts([Slot(1.0), Slot(1.0), Slot(1.0)], [5.0] * 3) == pytest.approx([1.0] * 3, abs=1e-6)


def test_closed_users_wait_for_their_answers() -> None:
    # First user: 0 to 1, 1 to 2, 2 to 3. Second: 0 to 3. Both are free at 3.
    service = [1.0, 3.0, 1.0, 1.0, 9.0, 9.0]
    assert starts(Closed(2), service) == pytest.approx([0, 0, 1, 2, 3, 3], abs=1e-6)
    assert starts(Closed(2), service, duration=2.5) == pytest.approx([0, 0, 1, 2], abs=1e-6)
    assert starts(Closed(9), [1.0, 1.0]) == [0.0, 0.0]


def test_closed_users_may_begin_one_after_the_other() -> None:
    assert starts(Closed(4, ramp_up=2.0), [9.0] * 4) == pytest.approx([0.0, 0.5, 1.0, 1.5], abs=1e-6)
    # The first user is free again at 0.2 and 0.4, before the second begins.
    assert starts(Closed(2, ramp_up=1.0), [0.2, 0.3, 9.0, 9.0]) == pytest.approx(
        [0.0, 0.2, 0.5, 0.5], abs=1e-6
    )


# ---- latencies and summaries


def answered(sent: float, arrivals: list[tuple[float, int | None]], output: int, **more: int) -> StreamRecord:
    return StreamRecord(
        sent=sent,
        ended=arrivals[-1][0],
        arrivals=tuple(Arrival(t, tokens) for t, tokens in arrivals),
        output_tokens=output,
        first_answer=arrivals[-1][0],
        **more,  # type: ignore[arg-type]
    )


FAILED = StreamRecord(sent=1.0, ended=9.0, failure=Failure("http", "HTTP 503.", 503))


def test_latencies_of_events_with_several_tokens() -> None:
    got = latencies(answered(1.0, [(1.5, 1), (1.7, 3), (1.9, 7)], 7))
    assert got is not None
    assert (got.ttft, got.ttft_content, got.e2e) == pytest.approx((0.5, 0.9, 0.9))
    assert got.tpot == pytest.approx(0.4 / 6)
    assert got.itl == pytest.approx((0.1, 0.1, 0.05, 0.05, 0.05, 0.05))
    assert got.stalls == pytest.approx((0.2, 0.2))
    assert latencies(FAILED) is None


def test_itl_needs_to_know_what_each_event_brought() -> None:
    one_each = latencies(answered(0.0, [(0.1, None), (0.2, None), (0.4, None)], 3))
    untold = latencies(answered(0.0, [(0.1, None), (0.2, None), (0.4, None)], 9))
    assert one_each is not None
    assert one_each.itl == pytest.approx((0.1, 0.2))
    assert untold is not None
    assert untold.itl is None
    # Three events of one token and then the end of the choice, which brought none.
    with_end = latencies(answered(0.0, [(0.1, None), (0.2, None), (0.4, None), (0.5, 3)], 3))
    assert with_end is not None
    assert with_end.itl == pytest.approx((0.1, 0.2))
    assert untold.tpot == pytest.approx(0.3 / 8)


def test_an_answer_in_one_event_has_no_tpot() -> None:
    got = latencies(answered(0.0, [(0.3, None)], 1))
    assert got is not None
    assert (got.tpot, got.itl, got.stalls, got.e2e) == (None, (), (), 0.3)


def test_be01_peak_counts_tokens_and_is_never_below_the_average() -> None:
    # 8 events of 4 tokens at 0.2 ... 0.9 s, the end at 1.0 s.
    chunks = [(round(0.2 + 0.1 * i, 1), 4 * (i + 1)) for i in range(8)]
    for counted in (True, False):
        arrivals = [(t, n if counted else None) for t, n in chunks] + [(1.0, 32 if counted else None)]
        got = summarise_run([answered(0.0, arrivals, 32)])
        assert got.output_rate == 32.0
        assert got.peak_output_rate == pytest.approx(32.0)


def test_peak_is_the_busiest_second() -> None:
    # Seconds that begin at an event hold 1 + 1, 1, 5 and 5 tokens: the best is [2.5, 3.5) with 5 + 5.
    got = summarise_run([answered(0.0, [(0.5, 1), (1.4, 2), (2.5, 7), (3.4, 12), (5.0, 13)], 13)])
    assert (got.seconds, got.output_rate, got.peak_output_rate) == (5.0, 13 / 5, 10.0)
    # Two events of one token 1.9 s apart: no second holds more than one, the average is above that.
    sparse = summarise_run([answered(0.0, [(0.0, 1), (1.9, 2)], 2)])
    assert sparse.peak_output_rate == sparse.output_rate == pytest.approx(2 / 1.9)


def test_percentiles_are_linear() -> None:
    got = Distribution.of([4.0, None, 1.0, 3.0, 2.0])
    assert got is not None
    assert (got.n, got.mean, got.minimum, got.maximum) == (4, 2.5, 1.0, 4.0)
    assert [got.p50, got.p90, got.p95, got.p99] == pytest.approx([2.5, 3.7, 3.85, 3.97])
    assert Distribution.of([None]) is None


def test_summary_leaves_out_failures_but_not_their_time_and_names_them() -> None:
    # The last token came at 5 s; the run went on to 9 s, when the third request had failed.
    records = [
        answered(0.0, [(0.2, 1), (1.0, 11)], 11, prompt_tokens=5, reasoning_tokens=4),
        answered(1.0, [(2.0, 1), (5.0, 11)], 11, prompt_tokens=7),
        FAILED,
    ]
    got = summarise_run(records, Slo(ttft=0.5, tpot=0.09))
    assert (got.requests, got.succeeded, got.errors, got.seconds) == (3, 2, {"http": 1}, 9.0)
    assert (got.input_tokens, got.output_tokens, got.reasoning_tokens) == (12, 22, 4)
    assert (got.request_rate, got.output_rate) == (2 / 9, 22 / 9)
    assert got.ttft is not None
    assert (got.ttft.n, got.ttft.minimum, got.ttft.maximum) == (2, 0.2, 1.0)
    assert (got.good, got.goodput) == (1, 1 / 9)  # TPOT 0.08 and 0.3


def test_a_run_in_which_all_failed() -> None:
    got = summarise_run([FAILED], Slo(ttft=1.0))
    assert (got.succeeded, got.seconds, got.output_rate, got.ttft, got.good, got.goodput) == (
        *(0, 0.0, None, None, 0),
        None,
    )


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("ttft=0.5", True),
        ("ttft=0.4", False),
        ("ttft_content=0.8", False),
        ("tpot=0.07,e2e=0.95", True),
        ("tpot=0.06,e2e=0.95", False),
        ("tpot=0.07,e2e=0.85", False),
    ],
)
def test_objectives(text: str, met: bool) -> None:
    slo = Slo.parse(text)
    assert slo.met(latencies(answered(1.0, [(1.5, 1), (1.7, 3), (1.9, 7)], 7))) is met
    assert not slo.met(None)


def test_objectives_where_a_value_is_absent() -> None:
    only_reasoning = latencies(
        StreamRecord(sent=0.0, ended=1.0, arrivals=(Arrival(0.1, 1),), output_tokens=1)
    )
    assert Slo(tpot=0.01).met(only_reasoning)
    assert not Slo(ttft_content=9.0).met(only_reasoning)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no limit that is known; use ttft, ttft_content, tpot, e2e"),
        ("speed=1", "names no limit that is known"),
        ("ttft=fast", "has ttft = 'fast'; give a number"),
        ("ttft=0", "The objective ttft is 0"),
    ],
)
def test_objectives_that_are_none(text: str, words: str) -> None:
    with pytest.raises(BenchError) as caught:
        Slo.parse(text)
    assert words in str(caught.value)


def test_cache_verdicts() -> None:
    def used(*cached: int | None) -> tuple[str, int, int | None]:
        got = cache_use(
            (StreamRecord(sent=0.0, ended=1.0, cached_tokens=tokens) for tokens in cached), limit=32
        )
        return got.verdict, got.above, got.most

    assert used(None, None) == ("unknown", 0, None)
    assert used(0, 32, None) == ("clean", 0, 32)
    assert used(0, 33, 64) == ("contaminated", 2, 64)


def test_running_counts_decide_even_if_as_many_events_came_as_tokens() -> None:
    arrivals = (Arrival(1.0, 1), Arrival(1.2, 3), Arrival(1.3, 3), Arrival(1.5, 4))
    record = StreamRecord(sent=0.0, ended=2.0, arrivals=arrivals, output_tokens=4)
    times = latencies(record)
    assert times is not None
    assert times.itl == pytest.approx((0.1, 0.1, 0.2))
