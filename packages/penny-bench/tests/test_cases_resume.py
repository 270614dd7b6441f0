"""Runs of judged workloads that were interrupted and go on, and versions of their cases."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from penny_bench.cases.agent import WORLDS
from penny_bench.cases.reasoning import CASES, WARMUPS
from penny_bench.cases.structured import schema_cases
from penny_bench.cases.tools import CALLS, QUOTED
from penny_bench.client import Reply, Server, ToolCall
from penny_bench.evidence import Around, earlier_phases, evidence
from penny_bench.mock import MockServer, Refusal, Script, token_script
from penny_bench.mock.reply import reply_script
from penny_bench.workload import EarlierPhases, WorkloadResult, measure_workload, read_workload


def answer(number: int, body: dict[str, Any]) -> Script:
    """A model that calls the first tool once with nothing, and else says a little; some schemas are refused."""
    if body.get("response_format", {}).get("type") == "json_schema" and number % 2:
        return Refusal(400, "no schemas")
    if "tools" in body and body["messages"][-1]["role"] == "user":
        name = body["tools"][0]["function"]["name"]
        return reply_script(Reply("", "Well.", (ToolCall(name, '{"x": 1}', f"id-{number}"),)))
    return reply_script(Reply('{"n": 1}')) if body["max_tokens"] > 2 else token_script(tokens=2)


def run(
    name: str, say: Callable[[int, dict[str, Any]], Script], earlier: EarlierPhases | None = None
) -> tuple[WorkloadResult, int]:
    async def go() -> tuple[WorkloadResult, int]:
        async with MockServer(say).start() as mock:
            server = await Server.connect(mock.url)
            workload = read_workload(name, {"long_tokens": 600} if name == "tools" else {})
            result = await measure_workload(server, workload, seed=4, earlier=earlier)
            return result, sum(body["max_tokens"] > 2 for body in mock.bodies)

    return asyncio.run(go())


@pytest.mark.parametrize("name", ["tools", "tools-quoted", "agent", "structured", "reasoning"])
def test_a_run_that_goes_on_sends_and_judges_nothing_twice(name: str) -> None:
    whole, sent = run(name, answer)
    assert sent > 0
    around = Around(words=["x"], started=datetime(2031, 1, 1, tzinfo=UTC), penny_bench="0")
    document = json.loads(json.dumps(evidence(whole, around)))
    resumed, again = run(name, answer, earlier_phases(document))
    assert again == 0
    assert resumed.checks == whole.checks
    assert [(m.phase, m.key, m.unit) for m in resumed.metrics] == [
        (m.phase, m.key, m.unit) for m in whole.metrics
    ]
    for was, now in zip(whole.metrics, resumed.metrics, strict=True):
        assert now.values == pytest.approx(
            was.values, abs=1e-5, rel=1e-2
        )  # times are kept to the microsecond
    assert resumed.notes == whole.notes
    # Without its last phase, only that one is sent.
    last = document["phases"][-1]
    missing = [request for request in document["requests"] if request["phase"] == last["name"]]
    last["ended"] = None
    partial, again = run(name, answer, earlier_phases(document))
    assert again == len(missing)
    assert [phase.name for phase in partial.phases] == [phase.name for phase in whole.phases]
    assert len(partial.checks) == len(whole.checks)


CONTENT = {
    "tools": (1, CALLS, "f771326cf80ba619"),
    "tools-quoted": (1, QUOTED, "318f5a36b0978795"),
    "agent": (1, [(w.name, w.task, w.tools, w.calls, w.answer) for w in WORLDS.values()], "a9054fe2c8c2ab77"),
    "structured": (1, schema_cases(), "0609e2ced9467574"),
    "reasoning": (1, (CASES, WARMUPS), "576eb5456a0f159a"),
}


@pytest.mark.parametrize("name", CONTENT)
def test_cases_change_only_with_the_version_of_their_workload(name: str) -> None:
    """Results are compared by name and version. If cases change: raise the version, then note the digest here."""
    version, cases, digest = CONTENT[name]
    text = json.dumps(cases, default=lambda x: asdict(x) if is_dataclass(x) else str(x), sort_keys=True)  # type: ignore[call-overload]
    assert read_workload(name).version == version
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest
