"""What a kind of workload works with: phases, requests, metrics and checks on one clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx

from penny_bench.client import Server, StreamRecord, Timeline, stream
from penny_bench.load import Check, RunRequest
from penny_bench.load.observer import Observer, Silent
from penny_bench.load.run import PART
from penny_bench.text import Gauge, prompt
from penny_bench.workload.result import Better, EarlierPhases, Metric, PhaseResult
from penny_bench.workload.spans import SpanProbe


class Phase:
    """A part of a run; from `Bench.phase`."""

    def __init__(self, bench: Bench, name: str, label: str, warmup: bool, stored: PhaseResult | None) -> None:
        self.bench = bench
        self.name = name
        self.label = label
        self.warmup = warmup
        self.requests: list[RunRequest] = []
        self._stored = sorted(stored.requests, key=lambda r: r.number, reverse=True) if stored else []

    async def send(
        self,
        body: Mapping[str, Any],
        *,
        case: str | None = None,
        turn: int | None = None,
        keep: bool = False,
        lone: bool = False,
        judge: Callable[[StreamRecord], Sequence[Check]] | None = None,
    ) -> RunRequest:
        """Send one request and follow it to its end.

        Args:
            body: from `Server.chat`, `Server.body` or `Bench.chat`.
            case, turn: kept with the result.
            keep: whether to keep what was said; `judge` implies it.
            lone: no other request runs meanwhile, so that the server's own counters tell the spans of this one.
            judge: gives the checks of the finished record; not called for one that failed, whose case then
                gets one check that did not pass.
        """
        bench = self.bench
        if self._stored:  # an earlier part of the run has sent it
            self.requests.append(self._stored.pop())
            bench.sent = max(bench.sent, self.requests[-1].number + 1)
            return self.requests[-1]
        number, bench.sent = bench.sent, bench.sent + 1
        counters = await bench.spans.before() if lone else None
        bench.observer.sent()
        sent = bench.clock()
        keeps = keep or judge is not None
        timeline = Timeline(sent, keeps, bench.observer.tokens, bench.server.count)
        try:
            record = await stream(bench.client, bench.server, body, bench.clock, timeline)
        except asyncio.CancelledError:
            timeline.fail("interrupted", "The run was interrupted while this stream was open.")
            self._keep(number, sent, body, timeline.record(bench.clock()), case, turn, ())
            raise
        if lone and record.spans is None:
            record = replace(record, spans=await bench.spans.after(counters))
        checks: Sequence[Check] = ()
        if judge:
            if record.failure:
                checks = [Check(case or "", "the request succeeds", False, record.failure.message)]
            else:
                checks = judge(record)
        return self._keep(number, sent, body, record, case, turn, tuple(checks))

    async def group(
        self, bodies: Sequence[Mapping[str, Any]], *, cases: Sequence[str | None] = (), keep: bool = False
    ) -> list[RunRequest]:
        """Send all bodies at once and return when the last stream has ended."""
        names = cases or [None] * len(bodies)
        return await asyncio.gather(
            *(self.send(body, case=name, keep=keep) for body, name in zip(bodies, names, strict=True))
        )

    def metric(self, key: str, label: str, values: Sequence[float | None], unit: str, better: Better) -> None:
        """Add a number of this phase: the median of the values that are not None; nothing without any."""
        self.bench.add_metric(self.name, key, label, values, unit, better)

    def _keep(
        self,
        number: int,
        sent: float,
        body: Mapping[str, Any],
        record: StreamRecord,
        case: str | None,
        turn: int | None,
        checks: tuple[Check, ...],
    ) -> RunRequest:
        tokens = int(body["max_tokens"])
        request = RunRequest(number, sent, None, tokens, record, self.name, case, turn, checks)
        self.requests.append(request)
        self.bench.observer.ended(record)
        return request


class Bench:
    """One run of a workload.

    Attributes:
        server: under test, as it must be asked.
        client: open HTTP client.
        clock: seconds since the start of the run.
        gauge: how the server counts prompts.
        seed: of prompts and cases.
        sampling: fields of every request.
        phases: those that have begun, in order.
        metrics: in the order in which they were added.
        notes: sentences that a reader of the result should know.
        observer: is told what goes on.
        spans: tells the server's own times of requests that run alone.
        sent: how many requests were sent so far.
    """

    def __init__(
        self,
        server: Server,
        client: httpx.AsyncClient,
        clock: Callable[[], float],
        gauge: Gauge,
        seed: int,
        sampling: Mapping[str, Any],
        observer: Observer | None = None,
        earlier: EarlierPhases | None = None,
    ) -> None:
        """`earlier` are finished phases of an interrupted run, whose requests are not sent again."""
        self.server = server
        self.client = client
        self.clock = clock
        self.gauge = gauge
        self.seed = seed
        self.sampling = dict(sampling)
        self.observer: Observer = observer or Silent()
        self.phases: list[PhaseResult] = []
        self.metrics: list[Metric] = []
        self.notes: list[str] = []
        self.spans = SpanProbe(server, client)
        self.sent = 0
        self._earlier = {phase.name: phase for phase in earlier.phases} if earlier else {}
        self._serial = PART * earlier.parts if earlier else 0

    def first_line(self) -> str:
        """A first line that was never sent before, so that no prefix cache knows what follows it."""
        self._serial += 1
        return f"No. {self._serial} of series {self.seed}.\n\n"

    def prompt(self, tokens: int) -> str:
        """A prompt of about `tokens` tokens that was never sent before."""
        self._serial += 1
        return prompt(tokens, self.seed, self._serial, self.gauge)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]] | str,
        tokens: int,
        *,
        exact: bool = False,
        **settings: Any,
    ) -> dict[str, Any]:
        """Body of a request with the sampling of the workload; see `Server.chat`. Text is one user message."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return self.server.chat(messages, tokens, exact=exact, settings={**self.sampling, **settings})

    @asynccontextmanager
    async def phase(
        self,
        name: str,
        label: str,
        *,
        warmup: bool = False,
        streams: int | None = None,
        total: int | None = None,
        cached: bool = False,
        resume: bool = True,
    ) -> AsyncIterator[Phase]:
        """A part of the run.

        Args:
            name: unique, such as `C4`; metrics are found by it.
            label: for people.
            warmup: kept apart, and in no number.
            streams: how many run at once, where that is one number.
            total: requests that it will send, where known, for progress.
            cached: whether prompts are meant to come from the server's cache; else that is contamination.
            resume: whether its requests may be taken from an interrupted run: not where their number depends on
                how long they take.
        """
        if any(phase.name == name for phase in self.phases):
            raise ValueError(f"There is already a phase {name!r}; give each its own name.")
        stored = self._earlier.get(name) if resume else None
        phase = Phase(self, name, label, warmup, stored)
        self.observer.phase(label, total)
        started = stored.started if stored else self.clock()
        result = PhaseResult(name, label, warmup, streams, cached, started, None, phase.requests)
        self.phases.append(result)
        yield phase
        ended = stored.ended if stored else self.clock()
        self.phases[self.phases.index(result)] = replace(result, ended=ended)

    def add_metric(
        self,
        phase: str | None,
        key: str,
        label: str,
        values: Sequence[float | None],
        unit: str,
        better: Better,
    ) -> None:
        """Add a number; `phase` None for one of the whole run. See `Phase.metric`."""
        known = [value for value in values if value is not None]
        if known:
            self.metrics.append(Metric(phase, key, label, tuple(known), unit, better))

    def note(self, sentence: str) -> None:
        """Add a sentence for the reader, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)
