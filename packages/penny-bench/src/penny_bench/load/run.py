"""One run: a load against a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from functools import partial

import httpx

from penny_bench.client import Server, StreamRecord, Timeline, http_client, stream
from penny_bench.errors import BenchError
from penny_bench.load.base import Closed, Slot
from penny_bench.load.check import Check
from penny_bench.load.drive import drive_closed, drive_open, due
from penny_bench.load.garbage import collect_now_and_then, collected_by_hand
from penny_bench.load.observer import Observer, Silent
from penny_bench.load.own_cost import LoopProbe, OwnCost
from penny_bench.load.parse import Load
from penny_bench.load.slo import Slo
from penny_bench.load.trace import Trace
from penny_bench.measure import Clock, new_clock, preflight
from penny_bench.text import Gauge, prompt, random_prompt

PART = 1_000_000
"""Distance between the numbers of the prompts of two parts of a run."""


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What to send.

    Attributes:
        load: when.
        requests: at most so many; None for no limit.
        duration: no request later than that, s; None for no limit. Open streams are followed to their end.
        tokens, prompt_tokens: of each request, where the load does not say.
        warmups: requests sent together before, kept apart.
        seed: of the arrivals and of the prompts.
        same_prompt: send one prompt over and over, which a prefix cache will know.
        random_prompts: send random words in place of real text. Speculation and caches then meet something that
            no user sends.
        cached_limit: cached prompt tokens of a request above which the run counts as contaminated.
        slo: what makes a request good; None for no goodput.
    """

    load: Load
    requests: int | None = None
    duration: float | None = None
    tokens: int = 128
    prompt_tokens: int = 128
    warmups: int = 4
    seed: int = 0
    same_prompt: bool = False
    random_prompts: bool = False
    cached_limit: int = 32
    slo: Slo | None = None

    def __post_init__(self) -> None:
        least = {"requests": 1, "tokens": 1, "prompt_tokens": 1, "warmups": 0, "seed": 0, "cached_limit": 0}
        for name, minimum in least.items():
            value = getattr(self, name)
            if value is not None and value < minimum:
                raise BenchError(f"{name} is {value}; give at least {minimum}.")
        if self.duration is not None and not 0 < self.duration < float("inf"):
            raise BenchError(f"duration is {self.duration:g}; give seconds above 0.")
        if self.requests is None and self.duration is None and not isinstance(self.load, Trace):
            raise BenchError("This load has no end; limit it with --requests or --duration.")


@dataclass(frozen=True)
class RunRequest:
    """A request and what became of it.

    Attributes:
        number: from 0, in the order of the schedule.
        scheduled: when it was due, s. In a closed loop, when its user became free.
        prompt_tokens, tokens: as asked for; `prompt_tokens` is None where no length was.
        record: its stream; times are seconds since the start of the run.
        phase: the part of the run that it belongs to.
        case, turn: which case of a workload it is, and which turn of its conversation, from 0.
        checks: what was asked of the reply, and whether it holds.
    """

    number: int
    scheduled: float
    prompt_tokens: int | None
    tokens: int
    record: StreamRecord
    phase: str = "run"
    case: str | None = None
    turn: int | None = None
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class RunResult:
    """Everything that a run saw.

    Attributes:
        server: as used.
        plan: as asked for.
        preflight: the requests that settled the protocol.
        warmups, requests: in the order of their numbers; warm-ups have times below 0.
        seconds: wall time of the measured part, s.
        own: what the client took meanwhile.
        complete: false if the run was interrupted.
        zero: `time.perf_counter()` at 0 s.
    """

    server: Server
    plan: RunPlan
    preflight: tuple[StreamRecord, ...]
    warmups: tuple[RunRequest, ...]
    requests: tuple[RunRequest, ...]
    seconds: float
    own: OwnCost
    complete: bool
    zero: float = 0.0


@dataclass(frozen=True)
class EarlierPart:
    """A run that was interrupted and now goes on.

    Attributes:
        requests: those that had ended.
        seconds: when it was interrupted, on its clock, which goes on from there.
        parts: how many parts there were. What is sent now has prompts of its own, since a cache may know those
            of requests that were cut off.
    """

    requests: tuple[RunRequest, ...]
    seconds: float
    parts: int = 1


@dataclass(frozen=True)
class _Job:
    number: int
    slot: Slot
    prompt: str
    prompt_tokens: int
    tokens: int


async def measure_run(
    server: Server,
    plan: RunPlan,
    observer: Observer | None = None,
    earlier: EarlierPart | None = None,
) -> RunResult:
    """Run the plan. If the task is cancelled meanwhile (Ctrl-C), return what was measured so far.

    Args:
        server: from `Server.connect`.
        plan: what to send.
        observer: is told what goes on.
        earlier: an interrupted part of the same plan; only what it lacks is sent.

    Raises:
        BenchError: a first request failed, so that nothing could be measured.
    """
    server, first, gauge = await preflight(server, plan.seed)
    observer = observer or Silent()
    requests: list[RunRequest] = list(earlier.requests) if earlier else []
    done = frozenset(request.number for request in requests)
    warmups: list[RunRequest] = []
    complete = True

    def keep(request: RunRequest) -> None:
        requests.append(request)
        collect_now_and_then(len(requests))
        observer.ended(request.record)

    async with http_client(server) as client:
        clock = before = new_clock()
        probe = LoopProbe(clock)
        watcher: asyncio.Task[None] | None = None
        try:
            if plan.warmups:
                observer.phase("warm-up", None)
                warm = replace(plan, load=Closed(plan.warmups), requests=plan.warmups, duration=None)
                await _drive(client, server, warm, partial(_job, plan, gauge, 1), warmups.append, clock)
            observer.phase("run", None if plan.requests is None else plan.requests - len(done))
            with collected_by_hand():
                clock = Clock(earlier.seconds if earlier else 0.0)
                probe = LoopProbe(clock)
                watcher = asyncio.create_task(probe.watch())
                serial = 1 + plan.warmups + (PART * earlier.parts if earlier else 0)
                job = partial(_job, plan, gauge, serial)
                await _drive(client, server, plan, job, keep, clock, done, observer)
        except asyncio.CancelledError:
            complete = False
        finally:
            if watcher:
                watcher.cancel()
        seconds = clock()
    begun = earlier.seconds if earlier else 0.0
    late = (
        []
        if isinstance(plan.load, Closed)
        else [
            request.record.sent - max(request.scheduled, begun)
            for request in requests
            if request.number not in done
        ]
    )
    own = probe.cost(seconds, late)
    warm_ups = [_moved(request, before.zero - clock.zero) for request in warmups]
    return RunResult(
        server, plan, first, _sorted(warm_ups), _sorted(requests), seconds, own, complete, clock.zero
    )


async def _drive(
    client: httpx.AsyncClient,
    server: Server,
    plan: RunPlan,
    prepare: Callable[[int, Slot], _Job],
    keep: Callable[[RunRequest], None],
    clock: Callable[[], float],
    done: Container[int] = (),
    observer: Observer | None = None,
) -> None:
    observer = observer or Silent()

    async def send(job: _Job) -> None:
        observer.sent(job.prompt_tokens)
        timeline = Timeline(sent=clock(), on_tokens=observer.tokens, count=server.count)

        def ended(record: StreamRecord) -> None:
            keep(RunRequest(job.number, job.slot.t, job.prompt_tokens, job.tokens, record))

        try:
            record = await stream(client, server, server.body(job.prompt, job.tokens), clock, timeline)
        except asyncio.CancelledError:
            timeline.fail("interrupted", "The run was interrupted while this stream was open.")
            ended(timeline.record(clock()))
            raise
        ended(record)

    if isinstance(plan.load, Closed):
        await drive_closed(plan.load, prepare, send, clock, plan.requests, plan.duration, done)
    else:
        slots = due(plan.load, plan.seed, plan.requests, plan.duration)
        await drive_open(slots, prepare, send, clock, done)


def _job(plan: RunPlan, gauge: Gauge, serial: int, number: int, slot: Slot) -> _Job:
    prompt_tokens = slot.prompt_tokens or plan.prompt_tokens
    tokens = slot.tokens or plan.tokens
    make = random_prompt if plan.random_prompts else prompt
    text = make(prompt_tokens, plan.seed, 1 if plan.same_prompt else serial + number, gauge)
    return _Job(number, slot, text, prompt_tokens, tokens)


def _moved(request: RunRequest, by: float) -> RunRequest:
    """A warm-up on the clock of the run."""
    record = request.record.shifted(by)
    return replace(request, scheduled=request.scheduled + by, record=record, phase="warm-up")


def _sorted(requests: list[RunRequest]) -> tuple[RunRequest, ...]:
    return tuple(sorted(requests, key=lambda request: request.number))
