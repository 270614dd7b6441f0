"""Evidence: its schema, what is taken out, and what is known of machine, GPU and server."""

import asyncio
import ctypes
import io
import json
import time
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from penny_bench.client import (
    Arrival,
    CachedTokens,
    Failure,
    Reply,
    Server,
    Spans,
    Speculation,
    StreamRecord,
    ToolCall,
)
from penny_bench.evidence import (
    Around,
    Gpu,
    GpuSampler,
    GpuState,
    Nvml,
    earlier_part,
    evidence,
    machine,
    schema,
    server_info,
)
from penny_bench.evidence.machine import cpu_name, memory
from penny_bench.evidence.read import read_request
from penny_bench.evidence.redact import address, command, text
from penny_bench.load import (
    Check,
    Closed,
    Constant,
    Distribution,
    Gamma,
    Load,
    OwnCost,
    Poisson,
    Ramp,
    RunPlan,
    RunRequest,
    RunResult,
    Slo,
    Slot,
    Trace,
)
from penny_bench.mock import MockServer
from penny_bench.report import print_run

# ---- what is taken out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["penny-bench", "run", "--api-key", "sesame"], "penny-bench run --api-key ..."),
        (
            ["penny-bench", "run", "--api-key=sesame", "--tokens", "8"],
            "penny-bench run --api-key=... --tokens 8",
        ),
        (["penny-bench", "--json", "/home/me/out.json"], "penny-bench --json out.json"),
        (["penny-bench", "--json=/home/me/out.json"], "penny-bench --json=out.json"),
        (["penny-bench", "--json", "results/out.json"], "penny-bench --json results/out.json"),
        (["penny-bench", "--json", "../../me/out.json"], "penny-bench --json out.json"),
        (["x", "--load", "trace:file=/data/t.jsonl,speed=2"], "x --load trace:file=t.jsonl,speed=2"),
        (["x", "--url", "http://me:pw@host:8000/v1?key=1"], "x --url http://host:8000/v1"),
        (["x", "--url=https://me@host/v1"], "x --url=https://host/v1"),
        (["x", "--model", "Qwen/Qwen3"], "x --model Qwen/Qwen3"),
    ],
)
def test_commands(words: list[str], expected: str) -> None:
    assert command(words) == expected


def test_addresses_and_paths() -> None:
    assert address("http://u:p@h:1/v1?token=x#y") == "http://h:1/v1"
    assert text("/models/deep/tiny-27b/") == "tiny-27b"
    assert text("Qwen/Qwen3-8B") == "Qwen/Qwen3-8B"
    assert text("~/models/tiny") == "tiny"


# ---- the machine and its GPUs


def test_machine_from_its_own_tables() -> None:
    assert (
        cpu_name("processor\t: 0\nmodel name\t: Some CPU: 3 GHz\n\nmodel name\t: Other\n")
        == "Some CPU: 3 GHz"
    )
    assert memory("MemTotal:       1000 kB\nMemFree: 5 kB\n") == 1_024_000
    assert (cpu_name(""), memory("")) == (None, None)
    assert machine().usable_cores >= 1


class FakeNvml:
    """Two GPUs as the library would show them; the second tells no power."""

    closed = False

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802
        count._obj.value = 2
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: ctypes.c_uint, handle: Any) -> int:  # noqa: N802
        handle._obj.value = 100 + index.value
        return 0

    def nvmlSystemGetDriverVersion(self, buffer: Any, size: ctypes.c_uint) -> int:  # noqa: N802
        buffer.value = b"580.1"
        return 0

    def nvmlDeviceGetName(self, handle: ctypes.c_void_p, buffer: Any, size: ctypes.c_uint) -> int:  # noqa: N802
        buffer.value = f"GPU {handle.value}".encode()
        return 0

    def nvmlDeviceGetPowerUsage(self, handle: ctypes.c_void_p, value: Any) -> int:  # noqa: N802
        value._obj.value = 312_500
        return 0 if handle.value == 100 else 3  # not supported

    def nvmlDeviceGetClockInfo(self, handle: ctypes.c_void_p, kind: ctypes.c_uint, value: Any) -> int:  # noqa: N802
        value._obj.value = {0: 1980, 2: 3201}[kind.value]
        return 0

    def nvmlDeviceGetTemperature(self, handle: ctypes.c_void_p, kind: ctypes.c_uint, value: Any) -> int:  # noqa: N802
        value._obj.value = 41
        return 0

    def nvmlShutdown(self) -> int:  # noqa: N802
        self.closed = True
        return 0


def test_gpus_and_their_states() -> None:
    nvml = Nvml(FakeNvml())
    assert nvml.gpus() == [Gpu(0, "GPU 100", "580.1"), Gpu(1, "GPU 101", "580.1")]
    assert nvml.state(0) == GpuState(312.5, 1980, 3201, 41)
    assert nvml.state(1) == GpuState(None, 1980, 3201, 41)


def test_sampler_keeps_states_over_time_and_closes() -> None:
    library = FakeNvml()
    with GpuSampler(Nvml(library), interval=0.01) as sampler:
        while len(sampler.samples) < 6:
            time.sleep(0.01)
    assert library.closed
    assert [sample.gpu for sample in sampler.samples[:6]] == [0, 1] * 3
    times = [sample.t for sample in sampler.samples]
    assert times == sorted(times)


def test_no_driver_no_gpus() -> None:
    assert Nvml.load("libthere-is-none.so.1") is None
    with GpuSampler(None) as sampler:
        pass
    assert (sampler.gpus, sampler.samples) == ([], [])


# ---- the server


def info(pages: dict[str, Any]) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        async with MockServer(lambda number, body: [], pages).start() as mock:
            return await server_info(await Server.connect(mock.url))

    return asyncio.run(run())


def test_server_info_keeps_known_fields_and_no_path_or_key() -> None:
    state = {"avg_spec_accept_length": 2.5, "memory_usage": {"weight": 1.5}, "secret": 1}
    page = {
        "version": "0.5.23",
        "model_path": "/home/me/models/tiny",
        "api_key": "sesame",
        "host": "10.0.0.1",
        "internal_states": [state],
    }
    assert info(
        {"/server_info": page, "/get_model_info": {"model_type": "qwen3", "tokenizer_path": "/x"}}
    ) == {
        "server_info": {
            "version": "0.5.23",
            "model_path": "tiny",
            "internal_states": [{"avg_spec_accept_length": 2.5, "memory_usage": {"weight": 1.5}}],
        },
        "model_info": {"model_type": "qwen3"},
    }


def test_servers_without_such_pages() -> None:
    assert info({}) == {}
    assert info({"/server_info": ["no", "object"]}) == {}


# ---- the document

GOOD = StreamRecord(
    sent=0.25,
    ended=1.5,
    arrivals=(Arrival(0.5, 1), Arrival(1.0, 11)),
    first_byte=0.45,
    first_reasoning=0.5,
    first_answer=1.0,
    prompt_tokens=20,
    cached_tokens=0,
    output_tokens=11,
    reasoning_tokens=3,
    finish_reason="length",
    reply=Reply("a", "b", (ToolCall("ls", "{}", "1"),)),
    cached=CachedTokens(0, 0),
    speculation=Speculation(4, 6, 12, (1, 1, 1, 1)),
    spans=Spans(0.01, 0.2, 1.0, "sglang /metrics"),
)
BAD = StreamRecord(sent=0.5, ended=1.0, failure=Failure("http", "HTTP 503.", 503))


def document(
    load: Load | None = None, complete: bool = True, gpu: GpuSampler | None = None
) -> dict[str, Any]:
    server = Server(url="http://me:pw@host/v1", model="/models/tiny", api_key="sesame")
    plan = RunPlan(load=load or Constant(4.0), requests=2, slo=Slo(ttft=0.5))
    check = Check("c", "says a", True, points=1.0, of=2.0)
    requests = (RunRequest(0, 0.0, 20, 11, GOOD, checks=(check,)), RunRequest(1, 0.5, 20, 11, BAD))
    one = Distribution.of([0.25])
    own = OwnCost(0.1, 0.05, one, None if isinstance(load, Closed) else one)
    warmups = (RunRequest(0, 0.0, 20, 11, GOOD),)
    result = RunResult(server, plan, (GOOD,), warmups, requests, 2.0, own, complete)
    around = Around(
        words=["penny-bench", "run", "--api-key", "sesame"],
        started=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        penny_bench="0.1.0",
        gpu=gpu,
        info={"server_info": {"version": "1"}},
        samples=[{"t": 1.5, "running": 2.0}],
        floors={"run/output_rate": 44.0, "ttft_p50": 0.125},
    )
    return evidence(result, around)


def valid(value: dict[str, Any]) -> None:
    """Check a document as a reader of the file would."""
    validator = jsonschema.Draft202012Validator(schema())
    validator.validate(json.loads(json.dumps(value, allow_nan=False)))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize(
    "load",
    [Closed(2), Constant(1.0), Poisson(1.0), Gamma(1.0, 2.0), Ramp(0.0, 1.0, 2.0), Trace("t", (Slot(0.0),))],
)
def test_documents_keep_to_the_schema(load: Load) -> None:
    valid(document(load))


def test_documents_with_gpus_keep_to_the_schema() -> None:
    with GpuSampler(Nvml(FakeNvml()), interval=0.01) as sampler:
        while len(sampler.samples) < 2:
            time.sleep(0.01)
    value = document(gpu=sampler)
    valid(value)
    assert value["machine"]["gpus"][1] == {"index": 1, "name": "GPU 101", "driver": "580.1"}
    assert value["machine"]["gpu_samples"][1]["power"] is None


@pytest.mark.parametrize(
    "spoil",
    [
        {"schema": "penny-bench/run/2"},
        {"status": "done"},
        {"extra": 1},
        {"requests": [{"sent": 1.0}]},
        {"cache": {"verdict": "clean"}},
    ],
)
def test_the_schema_refuses_other_documents(spoil: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        valid({**document(), **spoil})


def test_every_time_of_a_request_is_told() -> None:
    value = document()
    good, bad = value["requests"]
    assert good == {
        "number": 0,
        "scheduled": 0.0,
        "asked": {"prompt_tokens": 20, "tokens": 11},
        "sent": 0.25,
        "first_byte": 0.45,
        "first_token": 0.5,
        "first_reasoning": 0.5,
        "first_content": 1.0,
        "last_token": 1.0,
        "ended": 1.5,
        "arrivals": [[0.5, 1], [1.0, 11]],
        "usage": {
            "prompt_tokens": 20,
            "cached_tokens": 0,
            "output_tokens": 11,
            "reasoning_tokens": 3,
            "by_tokenizer": False,
        },
        "latency": {"ttft": 0.25, "ttft_content": 0.75, "tpot": 0.05, "e2e": 0.75},
        "finish_reason": "length",
        "failure": None,
        "phase": "run",
        "case": None,
        "turn": None,
        "spans": {"queue": 0.01, "prefill": 0.2, "post_prefill": 1.0, "source": "sglang /metrics"},
        "cached": {"device": 0, "host": 0, "storage": None},
        "speculation": {
            "verify": 4,
            "accepted": 6,
            "proposed": 12,
            "acceptance_length": 2.5,
            "histogram": [1, 1, 1, 1],
        },
        "text": {
            "content": "a",
            "reasoning": "b",
            "tool_calls": [{"name": "ls", "arguments": "{}", "id": "1"}],
        },
        "checks": [{"case": "c", "name": "says a", "passed": True, "detail": "", "points": 1.0, "of": 2.0}],
    }
    assert bad["failure"] == {"kind": "http", "message": "HTTP 503.", "status": 503}
    assert bad["latency"] is None
    assert len(value["warmups"]) == len(value["preflight"]) == 1
    summary = value["summary"]
    assert (summary["requests"], summary["succeeded"], summary["errors"]) == (2, 1, {"http": 1})
    assert (summary["seconds"], summary["good"], summary["ttft"]["p50"]) == (0.75, 1, 0.25)
    assert value["checks"]["rows"] == good["checks"]
    assert (value["checks"]["score"], value["checks"]["of"], value["checks"]["total"]) == (1.0, 2.0, 1)
    assert value["speculation"] == good["speculation"]
    assert value["server"]["samples"] == [{"t": 1.5, "running": 2.0}]
    assert [phase["name"] for phase in value["phases"]] == ["warm-up", "run"]
    assert value["phases"][1]["summary"] == summary


def test_metrics_with_the_share_of_a_stated_floor() -> None:
    metrics = {metric["key"]: metric for metric in document()["metrics"]}
    rate = metrics["output_rate"]  # 11 tokens in 0.75 s
    assert rate["value"] == pytest.approx(44 / 3)
    assert rate["share"] == pytest.approx(1 / 3)
    assert (metrics["ttft_p50"]["value"], metrics["ttft_p50"]["share"]) == (0.25, 0.5)
    assert (metrics["goodput"]["floor"], metrics["goodput"]["share"]) == (None, None)


def test_a_request_can_be_read_back() -> None:
    value = json.loads(json.dumps(document()))
    records = [read_request(part).record for part in value["requests"]]
    assert records == [GOOD, BAD]
    part = earlier_part(value)
    assert [request.number for request in part.requests] == [0, 1]
    assert part.seconds == 2.0


def test_no_secret_and_no_path_is_left() -> None:
    kept = json.dumps(document())
    assert "sesame" not in kept
    assert "me:pw" not in kept
    assert "/models" not in kept


def test_an_interrupted_run_is_partial() -> None:
    value = document(complete=False)
    valid(value)
    assert value["status"] == "partial"


@pytest.mark.parametrize(("lag", "warned"), [(0.04, False), (0.06, True)])
def test_a_client_that_was_too_busy_says_so(lag: float, warned: bool) -> None:
    value = document()
    value["client"]["loop_lag"]["p99"] = lag
    out = io.StringIO()
    print_run(value, Console(file=out, width=100))
    assert ("was too busy: events closer together" in out.getvalue()) is warned
    assert "1 of 2 requests succeeded in 0.75 s; 1 failed: http" in out.getvalue()
