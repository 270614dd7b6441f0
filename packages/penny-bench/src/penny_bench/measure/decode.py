"""Decode rate: groups of equal streams, started together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from penny_bench.client import Server, StreamRecord, http_client, stream
from penny_bench.errors import BenchError
from penny_bench.measure.clock import new_clock
from penny_bench.measure.preflight import preflight
from penny_bench.measure.rates import GroupRates, group_rates
from penny_bench.text import prompt


@dataclass(frozen=True, kw_only=True)
class DecodePlan:
    """What to measure.

    Attributes:
        concurrency: streams of a group, one entry per row of the result.
        tokens: tokens that each stream asks for.
        prompt_tokens: length of the prompts, about; the server's own count is reported.
        runs: measured groups per concurrency.
        warmups: groups per concurrency that come before and are kept apart.
        seed: numbers the prompts; with another seed no prompt begins like one sent before.
    """

    concurrency: tuple[int, ...] = (1, 8)
    tokens: int = 256
    prompt_tokens: int = 128
    runs: int = 3
    warmups: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"tokens": 2, "prompt_tokens": 1, "runs": 1, "warmups": 0, "seed": 0}
        for name, minimum in least.items():
            if getattr(self, name) < minimum:
                raise BenchError(f"{name} is {getattr(self, name)}; give at least {minimum}.")
        if not self.concurrency or min(self.concurrency) < 1:
            raise BenchError(f"concurrency is {self.concurrency}; give numbers of at least 1, such as 1,8.")
        if len(set(self.concurrency)) != len(self.concurrency):
            raise BenchError(f"concurrency is {self.concurrency}; give each number once.")


@dataclass(frozen=True)
class Group:
    """Streams that were started together.

    Attributes:
        concurrency: how many.
        warmup: whether it came before measuring.
        records: one per stream.
        seconds: wall time of the group, s.
        client_cpu: processor time that this client spent meanwhile, s.
    """

    concurrency: int
    warmup: bool
    records: tuple[StreamRecord, ...]
    seconds: float
    client_cpu: float

    @cached_property
    def rates(self) -> GroupRates:
        """Rates of the group."""
        return group_rates(self.records)


@dataclass(frozen=True)
class DecodeResult:
    """Everything that one measurement saw.

    Attributes:
        server: as used, with the extensions it took.
        plan: as asked for.
        preflight: the requests before, which settled the extensions and how prompts are counted.
        groups: all groups in the order in which they ran, warm-ups among them.
    """

    server: Server
    plan: DecodePlan
    preflight: tuple[StreamRecord, ...]
    groups: tuple[Group, ...]

    def measured(self, concurrency: int) -> list[Group]:
        """The groups of one concurrency, without the warm-ups."""
        return [g for g in self.groups if g.concurrency == concurrency and not g.warmup]


async def measure_decode(
    server: Server, plan: DecodePlan, on_group: Callable[[int, int, int], None] | None = None
) -> DecodeResult:
    """Run the plan, one group at a time.

    Args:
        server: from `Server.connect`.
        plan: what to measure.
        on_group: called before each group with its concurrency, its number from 1 and how many there are.

    Raises:
        BenchError: a first request failed, so that nothing could be measured. What fails later is kept in
            the records.
    """
    server, first, gauge = await preflight(server, plan.seed)
    groups: list[Group] = []
    serial = 1
    for concurrency in plan.concurrency:
        count = plan.warmups + plan.runs
        async with http_client(server) as client:
            for number in range(count):
                if on_group:
                    on_group(concurrency, number + 1, count)
                prompts = [
                    prompt(plan.prompt_tokens, plan.seed, serial + i, gauge) for i in range(concurrency)
                ]
                serial += concurrency
                clock, cpu = new_clock(), time.process_time()
                records = await asyncio.gather(
                    *(stream(client, server, server.body(p, plan.tokens), clock) for p in prompts)
                )
                groups.append(
                    Group(
                        concurrency, number < plan.warmups, tuple(records), clock(), time.process_time() - cpu
                    )
                )
    return DecodeResult(server, plan, first, tuple(groups))
