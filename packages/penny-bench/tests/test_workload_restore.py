"""Restores against a mock that has a device, a host and a storage tier; what it counts is worked out apart."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from penny_bench.client import Arrival, CachedTokens, Reply, Server, StreamRecord
from penny_bench.load import Check, RunRequest
from penny_bench.measure import new_clock, preflight
from penny_bench.mock import MockServer, Script, Step, token_script
from penny_bench.server import control
from penny_bench.workload import Bench
from penny_bench.workload.kinds.restore import KIND, Settings
from penny_bench.workload.tiers import Limits, cold_checks, tier_checks

PAGE = 64
TIMES = {"cold": 0.03, "device": 0.005, "host": 0.01, "storage": 0.02}
"""TTFT of the mock, s."""


@pytest.fixture(autouse=True)
def soon_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "QUIET", 0.05)


class Tiers:
    """A server that counts a character of the prompt as a token, and knows where each whole prompt is."""

    def __init__(self, capacity: int = 4000, host: bool = True, storage: bool = True, **changed: Any) -> None:
        self.device: OrderedDict[str, int] = OrderedDict()
        self.host: set[str] = set()
        self.storage: set[str] = set()
        self.has_host, self.has_storage, self.capacity = host, storage, capacity
        self.flushed = self.written = 0
        self.info = {
            "page_size": PAGE,
            "max_total_num_tokens": capacity,
            "enable_hierarchical_cache": host,
            "hicache_storage_backend": "file" if storage else None,
            **changed,
        }
        self.pages: dict[str, Callable[[], httpx.Response]] = {
            "GET /server_info": lambda: httpx.Response(200, json=self.info),
            "GET /metrics": lambda: httpx.Response(200, text=self.metrics()),
            "POST /flush_cache": self.flush,
        }

    def answer(self, number: int, body: dict[str, Any]) -> Script:
        text = body["messages"][0]["content"]
        tier, cached = "cold", 0
        for name, known in (("device", self.device), ("host", self.host), ("storage", self.storage)):
            if text in known:
                tier, cached = name, len(text) // PAGE * PAGE
                break
        self.device[text] = len(text)
        self.device.move_to_end(text)
        while sum(self.device.values()) > self.capacity:
            self.device.popitem(last=False)
        if self.has_host:
            self.host.add(text)
        if self.has_storage:
            self.storage.add(text)
            self.written += len(text) - cached
        script = token_script(
            tokens=body["max_tokens"], first=TIMES[tier], prompt_tokens=len(text), cached_tokens=cached
        )
        if cached:
            found = {"device": 0, "host": 0, "storage": 0, tier: cached}
            if not self.has_storage:
                del found["storage"]
            script.insert(-2, Step(0, {"choices": [], "sglext": {"cached_tokens_details": found}}))
        return script

    def metrics(self) -> str:
        return f'sglang:page_size{{tp_rank="0"}} {PAGE}\nsglang:backuped_tokens_total{{tp_rank="0"}} {self.written}\n'

    def flush(self) -> httpx.Response:
        self.flushed += 1
        self.device.clear()
        self.host.clear()
        return httpx.Response(200, text="Cache flushed.")


class Routed(httpx.AsyncBaseTransport):
    """Some pages from functions, all else over the network."""

    def __init__(self, pages: dict[str, Callable[[], httpx.Response]]) -> None:
        self.pages = pages
        self.network = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if page := self.pages.get(f"{request.method} {request.url.path}"):
            return page()
        return await self.network.handle_async_request(request)


def ran(tiers: Tiers, seed: int = 3, **settings: Any) -> Bench:
    async def run() -> Bench:
        async with MockServer(tiers.answer).start() as mock:
            server, _, gauge = await preflight(await Server.connect(mock.url), seed)
            async with httpx.AsyncClient(transport=Routed(tiers.pages)) as client:
                bench = Bench(server, client, new_clock(), gauge, seed, {})
                async with asyncio.timeout(60):
                    await KIND.run(bench, Settings(**{"prompt_tokens": 1000, "tokens": 4, **settings}))
                return bench

    return asyncio.run(run())


def measured(bench: Bench) -> dict[str, list[RunRequest]]:
    return {phase.name: list(phase.requests) for phase in bench.phases if not phase.warmup}


def metrics(bench: Bench, phase: str) -> dict[str, float]:
    return {metric.key: metric.value for metric in bench.metrics if metric.phase == phase}


def test_each_tier_is_told_apart() -> None:
    tiers = Tiers()
    bench = ran(tiers, sessions=2)
    phases = measured(bench)
    assert list(phases) == ["cold", "radix", "host", "disk"]
    assert [phase.cached for phase in bench.phases if not phase.warmup] == [False, True, True, True]
    assert tiers.flushed == 1
    for name, tier in (("radix", "device"), ("host", "host"), ("disk", "storage")):
        for request in phases[name]:
            record = request.record
            assert record.prompt_tokens is not None
            whole = record.prompt_tokens // PAGE * PAGE
            assert record.cached == CachedTokens(**{"device": 0, "host": 0, "storage": 0, tier: whole})
            assert [(check.name, check.passed) for check in request.checks] == [
                (f"comes from {tier}", True),
                ("computes only its end", True),
                ("says what it said cold", True),
            ]
        found = metrics(bench, name)
        records = [request.record for request in phases[name]]
        assert found["restored"] == sum((record.prompt_tokens or 0) // 64 * 64 for record in records)
        took = max(record.arrivals[0].t for record in records) - min(record.sent for record in records)
        assert took >= TIMES[tier]
        assert found["restore_rate"] == pytest.approx(found["restored"] / took)
        shares = [100 * ((r.prompt_tokens or 0) // 64 * 64) / (r.prompt_tokens or 1) for r in records]
        assert found["tier_share"] == pytest.approx(sum(shares) / 2)
        assert found["computed"] < PAGE
    assert all(check.passed for request in phases["cold"] for check in request.checks)
    assert "restore_rate" not in metrics(bench, "cold")
    faster = metrics(bench, "cold")["load_time"] / metrics(bench, "disk")["load_time"]
    assert metrics(bench, "disk")["speedup"] == pytest.approx(faster)


def test_filling_stops_when_the_marker_is_gone() -> None:
    bench = ran(Tiers(capacity=4000))
    fill = next(phase for phase in bench.phases if phase.name == "fill")
    # The first marker, of about 512 tokens, leaves a pool of 4,000 long before twice its size was sent.
    kinds = [request.case for request in fill.requests]
    assert kinds.count("marker") > 8  # eight steps are prepared
    assert kinds[8:] == ["filler", "marker"] * (len(kinds[8:]) // 2)
    assert kinds.count("filler") < 8
    last = fill.requests[-1].record
    assert last.cached is not None
    assert (last.cached.device, last.cached.host > 0) == (0, True)


@pytest.mark.parametrize(
    ("tiers", "phases", "words"),
    [
        (Tiers(host=False, storage=False), ["cold", "radix"], ["no host tier", "no storage"]),
        (Tiers(storage=False), ["cold", "radix", "host"], ["no storage"]),
        (
            Tiers(max_total_num_tokens=None),
            ["cold", "radix", "disk"],
            ["does not tell the size of its pool, so there is no phase `host`"],
        ),
    ],
)
def test_what_is_absent_is_noted(tiers: Tiers, phases: list[str], words: list[str]) -> None:
    bench = ran(tiers)
    assert list(measured(bench)) == phases
    for word in words:
        assert any(word in note for note in bench.notes)


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "admin key"), (400, "HTTP 400: busy"), (404, "no way to empty its cache")],
)
def test_without_a_flush_there_is_no_disk_phase(status: int, words: str) -> None:
    tiers = Tiers(host=False)
    tiers.pages["POST /flush_cache"] = lambda: httpx.Response(status, text="busy")
    tiers.pages["POST /reset_prefix_cache"] = lambda: httpx.Response(404)
    bench = ran(tiers)
    assert list(measured(bench)) == ["cold", "radix"]
    assert any("There is no phase `disk`: " in note and words in note for note in bench.notes)


def test_after_a_restart_the_same_prompts_come_from_storage() -> None:
    tiers = Tiers()
    first = ran(tiers, seed=5, sessions=2)
    how = next(note for note in first.notes if "restart the server" in note)
    assert "--seed 5 --set part=after-restart --set sessions=2 --set prompt_tokens=1000 --set tokens=4" in how
    texts = re.findall(r'"([0-9a-f]{16})"', how)
    assert len(texts) == 2
    tiers.flush()  # as a restart does
    second = ran(tiers, seed=5, sessions=2, part="after-restart", texts=texts)
    phases = measured(second)
    assert list(phases) == ["restart"]
    assert all(check.passed for request in phases["restart"] for check in request.checks)
    assert [len(request.checks) for request in phases["restart"]] == [3, 3]
    tiers.flush()
    tiers.storage.clear()
    lost = measured(ran(tiers, seed=5, sessions=2, part="after-restart", texts=["0" * 16]))["restart"]
    by_case = {request.case: request.checks for request in lost}
    assert [check.passed for check in by_case["session 1"]] == [False, False, False]
    assert [check.passed for check in by_case["session 2"]] == [False, False]  # its text is not known


def test_a_seed_that_storage_knows_is_not_cold() -> None:
    tiers = Tiers(host=False)
    ran(tiers, seed=5)
    tiers.flush()
    (request,) = measured(ran(tiers, seed=5))["cold"]
    assert [(check.name, check.passed) for check in request.checks] == [("comes from no cache", False)]


LIMITS = Limits(share=0.9, computed=64, shared=32)


def record(prompt: int | None, cached: int | None, tiers: CachedTokens | None = None) -> StreamRecord:
    return StreamRecord(
        sent=0.0,
        ended=1.0,
        arrivals=(Arrival(0.5, 1),),
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=1,
        reply=Reply("x"),
        cached=tiers,
    )


def verdicts(checks: list[Check]) -> list[bool | None]:
    return [check.passed for check in checks]


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (record(1000, 960, CachedTokens(960, 0)), [True, True]),
        (record(1000, 936, CachedTokens(900, 36)), [True, True]),  # just 90 %, just one page computed
        (record(1000, 936, CachedTokens(899, 37)), [False, True]),
        (record(1000, 935, CachedTokens(935, 0)), [True, False]),
        (record(1000, 960, CachedTokens(0, 960)), [False, True]),  # another tier
        (record(1000, 0), [False, False]),
        (record(1000, 960), [None, True]),  # a server that tells only the sum
        (record(1000, None), [None, None]),
    ],
)
def test_tier_verdicts(what: StreamRecord, expected: list[bool | None]) -> None:
    assert verdicts(tier_checks("c", what, "device", LIMITS)) == expected


@pytest.mark.parametrize(("cached", "expected"), [(0, True), (32, True), (33, False), (None, None)])
def test_cold_verdicts(cached: int | None, expected: bool | None) -> None:
    assert verdicts(cold_checks("c", record(1000, cached), LIMITS)) == [expected]
