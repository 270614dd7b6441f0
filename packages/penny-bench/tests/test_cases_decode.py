"""Decode behind several contexts, and the natural decode."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penny_bench.client import Server
from penny_bench.errors import BenchError
from penny_bench.mock import Refusal, Script, running, token_script
from penny_bench.workload import WorkloadResult, measure_workload, read_workload


def measured(name: str, **settings: Any) -> tuple[WorkloadResult, list[dict[str, Any]]]:
    def answer(number: int, body: dict[str, Any]) -> Script:
        # A server with four characters to a token and a head of 10 tokens.
        tokens = 10 + len(body["messages"][0]["content"]) // 4
        return token_script(tokens=body["max_tokens"], per_chunk=2, interval=0.002, prompt_tokens=tokens)

    async def run(url: str) -> WorkloadResult:
        return await measure_workload(await Server.connect(url), read_workload(name, settings), 7)

    with running(answer) as mock:
        result = asyncio.run(run(mock.url))
    return result, [body for body in mock.bodies if body["max_tokens"] > 2]


def test_each_context_has_phases_of_its_own() -> None:
    result, _ = measured("decode-long", prompt_tokens=[3000, 6000], concurrency=[1, 2], tokens=8, runs=2)
    names = [phase.name for phase in result.phases if not phase.warmup]
    assert names == ["C1 3000", "C2 3000", "C1 6000", "C2 6000"]
    assert result.phases[1].label == "1 stream of 3,000 tokens"
    lengths = {
        phase.name: [request.record.prompt_tokens for request in phase.requests] for phase in result.phases
    }
    assert all(2850 < n < 3150 for n in lengths["C2 3000"])
    assert all(5700 < n < 6300 for n in lengths["C2 6000"])
    assert all(1900 < n < 2150 for n in lengths["C1 6000 warm-up"])  # warm-ups are short
    assert {(m.phase, m.key) for m in result.metrics} >= {(name, "aggregate") for name in names}


def test_one_context_keeps_the_short_names() -> None:
    result, _ = measured("decode-long", prompt_tokens=200, concurrency=[1], tokens=8, runs=1, warmups=0)
    assert [phase.name for phase in result.phases] == ["C1"]


def test_natural_decode_may_end_early_and_never_repeats_a_prompt() -> None:
    result, bodies = measured("decode-natural", tokens=16, runs=2)
    assert len(bodies) == 3
    assert not any(body.get("ignore_eos") for body in bodies)
    assert all("surveyor" in body["messages"][0]["content"] for body in bodies)
    assert len({body["messages"][0]["content"] for body in bodies}) == 3
    assert bodies[0]["top_k"] == 40
    assert [phase.name for phase in result.phases] == ["C1 warm-up", "C1"]
    assert read_workload("decode-natural").settings.tokens == 3072  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", [0, [], [0], "far"])
def test_wrong_contexts_are_told(wrong: Any) -> None:
    with pytest.raises(BenchError, match="wrong settings: prompt_tokens"):
        read_workload("decode-long", {"prompt_tokens": wrong})


def test_a_group_that_failed_is_not_called_short() -> None:
    def answer(number: int, body: dict[str, Any]) -> Script:
        return Refusal(503, "busy") if body["max_tokens"] == 8 else token_script(tokens=body["max_tokens"])

    async def run(url: str) -> WorkloadResult:
        settings = {"concurrency": [1], "tokens": 8, "runs": 1, "warmups": 0}
        return await measure_workload(await Server.connect(url), read_workload("decode-short", settings), 7)

    with running(answer) as mock:
        result = asyncio.run(run(mock.url))
    assert result.metrics == result.notes == ()
