"""Restores of a long prefix from each tier of the cache, told apart by what the server counted.

Phases, of the same prompts each time: `cold` (nothing knows them), `radix` (at once again: from the device), `host`
(after other prompts have pushed them off the device), `disk` (after device and host were emptied: from storage). What
the server does not have is left out, with a note. A restart is the user's: `part = "after-restart"` sends the prompts
of an earlier run with the same seed again, as its only phase.

The load time of a prefix is the client's TTFT, from the first request to the last first token where several sessions
start together; on a server that tells its spans also queue + prefill, in which SGLang reads storage and then copies
from host memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penny_bench.client import StreamRecord
from penny_bench.load import Check, RunRequest
from penny_bench.server.control import flush, stored_tokens, wait_until_stored
from penny_bench.server.metrics import MetricsReader
from penny_bench.server.pages import json_page
from penny_bench.server.pools import NAMES as POOLS
from penny_bench.server.pools import pools
from penny_bench.server.storage import Storage, storage
from penny_bench.server.transfers import NAMES as TRANSFERS
from penny_bench.workload.bench import Bench, Phase
from penny_bench.workload.kinds import Kind
from penny_bench.workload.kinds.prefill import prefill_rate
from penny_bench.workload.restoring import push_out, restore_metrics, said, same_text
from penny_bench.workload.tiers import Limits, Tier, cold_checks, tier_checks

PAGE = 256
"""Tokens that may be computed again where the server does not tell its page size."""
CHUNK = 64
"""Recurrent states are kept at boundaries of so many tokens (the chunk of the linear-attention kernels), however small
a page is."""


class Settings(BaseModel):
    """Attributes:
    part: `whole`, or `after-restart`: only ask for what a run with the same seed left in storage.
    sessions: prompts that are sent together.
    prompt_tokens: length of each, about.
    tokens: tokens of each answer.
    share: of a prompt that must come from the tier of its phase, at least.
    computed: tokens that may be computed again; without, one page of the server, at least `CHUNK`.
    shared: cached tokens that a cold prompt may have.
    fill: most tokens of other prompts that are sent to push the sessions off the device; without, twice the pool.
    settle: longest wait for the server to write to storage, s.
    same_text: whether the answer after a restore must be that of the cold one (greedy).
    texts: digests of the cold answers, for `after-restart`; the first part notes them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    part: Literal["whole", "after-restart"] = "whole"
    sessions: int = Field(default=1, ge=1)
    prompt_tokens: int = Field(default=61_440, ge=1)
    tokens: int = Field(default=16, ge=1)
    share: float = Field(default=0.9, gt=0, le=1)
    computed: int | None = Field(default=None, ge=0)
    shared: int = Field(default=32, ge=0)
    fill: int | None = Field(default=None, ge=1)
    settle: float = Field(default=20.0, ge=0)
    same_text: bool = True
    texts: tuple[str, ...] = ()


async def run(bench: Bench, settings: Settings) -> None:
    """See `Kind.run`."""
    # First of all, so that a later run with the same seed sends the same.
    texts = [bench.prompt(settings.prompt_tokens) for _ in range(settings.sessions)]
    bodies = [bench.chat(text, settings.tokens, exact=True) for text in texts]
    await _Run(bench, settings, bodies).all()


class _Run:
    def __init__(self, bench: Bench, settings: Settings, bodies: Sequence[dict[str, Any]]) -> None:
        self.bench, self.settings, self.bodies = bench, settings, bodies
        self.reader = MetricsReader(bench.server, bench.client, (*POOLS, *TRANSFERS))
        self.limits = Limits(settings.share, PAGE, settings.shared)
        self.expected = dict(enumerate(settings.texts))
        self.cold: float | None = None

    async def all(self) -> None:
        info = await json_page(self.bench.client, self.bench.server, "server_info")
        tiers, pool = storage(info), pools(info, await self.reader.read())
        page = (pool and pool.page_size) or PAGE
        computed = self.settings.computed
        self.limits = Limits(
            self.settings.share, max(page, CHUNK) if computed is None else computed, self.settings.shared
        )
        async with self.bench.phase("warm-up", "warm-up", warmup=True, streams=1, total=1) as phase:
            await phase.send(self.bench.chat(self.bench.prompt(128), self.settings.tokens, exact=True))
        if self.settings.part == "after-restart":
            await self.phase("restart", "from storage, after a restart", "storage")
            return
        if len(self.bodies) > 1:
            self.bench.note(
                "Sessions that start together have no server times: no server streams those of each request."
            )
        written = await stored_tokens(self.reader) or 0.0
        await self.phase("cold", "cold", None)
        await self.phase("radix", "from the device", "device")
        await self.host(tiers, pool.tokens if pool else None)
        await self.disk(tiers, written)

    async def host(self, tiers: Storage, capacity: int | None) -> None:
        if tiers.host is False:
            self.bench.note("The server has no host tier, so there is no phase `host`.")
            return
        fill = self.settings.fill or (capacity and 2 * capacity)
        if not fill:
            self.bench.note(
                "The server does not tell the size of its pool, so there is no phase `host`; give it with `fill`."
            )
            return
        await push_out(self.bench, fill, self.settings.prompt_tokens, self.limits.computed)
        await self.phase("host", "from the host", "host")

    async def disk(self, tiers: Storage, written: float) -> None:
        if tiers.told and tiers.backend is None:
            self.bench.note("The server has no storage, so there is no phase `disk`.")
            return
        if await wait_until_stored(self.reader, written, self.settings.settle) == 0:
            self.bench.note("The server wrote nothing to storage within the time to settle.")
        emptied = await flush(self.bench.client, self.bench.server)
        if emptied.done:
            await self.phase("disk", "from storage", "storage")
        else:
            self.bench.note(f"There is no phase `disk`: {emptied.detail}")
        self.bench.note(self._how_to_go_on())

    async def phase(self, name: str, label: str, tier: Tier | None) -> None:
        before = await self.reader.read()
        sessions = len(self.bodies)
        async with self.bench.phase(
            name, label, streams=sessions, total=sessions, cached=tier is not None
        ) as phase:
            requests = await asyncio.gather(*(self._send(phase, i, tier) for i in range(sessions)))
        if tier is None:
            self.expected = {i: said(r.record) for i, r in enumerate(requests) if not r.record.failure}
            phase.metric(
                "prefill",
                "prefill, server's span",
                [prefill_rate(r.record) for r in requests],
                "tok/s",
                "higher",
            )
        took = restore_metrics(phase, [r.record for r in requests], tier, before, await self.reader.read())
        if tier is None:
            self.cold = took
        elif took and self.cold:
            phase.metric("speedup", "faster than cold", [self.cold / took], "x", "higher")

    async def _send(self, phase: Phase, session: int, tier: Tier | None) -> RunRequest:
        case = f"session {session + 1}"
        judge = partial(self._judge, case, session, tier)
        lone = len(self.bodies) == 1
        return await phase.send(self.bodies[session], case=case, keep=True, lone=lone, judge=judge)

    def _judge(self, case: str, session: int, tier: Tier | None, record: StreamRecord) -> list[Check]:
        if tier is None:
            return cold_checks(case, record, self.limits)
        checks = tier_checks(case, record, tier, self.limits)
        if self.settings.same_text and session in self.expected:
            checks.append(same_text(case, record, self.expected[session]))
        return checks

    def _how_to_go_on(self) -> str:
        chosen = {key: getattr(self.settings, key) for key in ("sessions", "prompt_tokens", "tokens")}
        sets = "".join(f" --set {key}={value}" for key, value in chosen.items())
        texts = ",".join(f'"{text}"' for text in self.expected.values())
        return (
            "To prove restores after a restart, restart the server and run: penny-bench run --workload restore"
            f" --seed {self.bench.seed} --set part=after-restart{sets} --set 'texts=[{texts}]'"
        )


KIND = Kind("restore", Settings, run)
