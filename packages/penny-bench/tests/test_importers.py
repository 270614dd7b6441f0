"""Results of other tools, in the shapes that they write, as documents of penny-bench."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from penny_bench.compare.commands import compare
from penny_bench.errors import BenchError
from penny_bench.evidence import schema
from penny_bench.history import find
from penny_bench.importers import imported, read_guidellm, read_sglang, read_vllm
from penny_bench.importers.commands import import_result
from penny_bench.report import parse_document, report_of

WRITTEN = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)


def sglang(**more: Any) -> dict[str, Any]:
    """Three requests at two streams; the last one failed. Each chunk of the first brought two tokens."""
    return {
        "tag": None,
        "backend": "sglang-oai-chat",
        "dataset_name": "random-ids",
        "request_rate": float("inf"),
        "max_concurrency": 2,
        "random_input_len": 32,
        "random_output_len": 6,
        "random_range_ratio": 1.0,
        "server_info": {"version": "0.5.23", "model_path": "/data/models/tiny", "api_key": "sesame"},
        "duration": 2.0,
        "completed": 2,
        "total_input_tokens": 64,
        "total_output_tokens": 10,
        "request_throughput": 1.0,
        "output_throughput": 5.0,
        "median_e2e_latency_ms": 400.0,
        "p99_e2e_latency_ms": 500.0,
        "median_ttft_ms": 150.0,
        "p99_ttft_ms": 200.0,
        "median_tpot_ms": 70.0,
        "p99_tpot_ms": 80.0,
        "median_itl_ms": 100.0,
        "p99_itl_ms": 110.0,
        "accept_length": 2.5,
        "input_lens": [32, 32, 32],
        "output_lens": [6, 4, 6],
        "ttfts": [0.1, 0.2, 0.0],
        "itls": [[0.1, 0.2], [0.1, 0.1, 0.1], []],
        "generated_texts": ["secret words", "b", ""],
        "errors": ["", "", "Traceback (most recent call last):\n  File x\nTimeoutError: /home/me/x is slow"],
        **more,
    }


def vllm(**more: Any) -> dict[str, Any]:
    return {
        "date": "20260131-120000",
        "endpoint_type": "openai-chat",
        "backend": "openai-chat",
        "label": None,
        "model_id": "Qwen/Qwen3-8B",
        "tokenizer_id": "Qwen/Qwen3-8B",
        "num_prompts": 2,
        "request_rate": 4.0,
        "burstiness": 1.0,
        "max_concurrency": None,
        "duration": 1.5,
        "completed": 2,
        "failed": 0,
        "total_input_tokens": 20,
        "total_output_tokens": 7,
        "request_throughput": 1.333,
        "request_goodput": None,
        "output_throughput": 4.667,
        "total_token_throughput": 18.0,
        "input_lens": [10, 10],
        "output_lens": [3, 4],
        "ttfts": [0.2, 0.3],
        "itls": [[0.1, 0.1], [0.25]],
        "start_times": [50.0, 50.5],
        "generated_texts": ["a", "b"],
        "errors": ["", ""],
        "mean_ttft_ms": 250.0,
        "median_ttft_ms": 250.0,
        "std_ttft_ms": 50.0,
        "p99_ttft_ms": 299.0,
        "median_e2el_ms": 475.0,
        "p99_e2el_ms": 550.0,
        **more,
    }


def guide_request(
    start: float, first: float, last: float, tokens: int, error: str | None = None
) -> dict[str, Any]:
    timings = {
        "request_start": start,
        "first_token_iteration": first,
        "first_output_token_iteration": first + 0.05,
        "last_token_iteration": last,
        "request_end": last + 0.01,
        "token_iterations": 3,
    }
    return {
        "type_": "generative_request_stats",
        "request_id": "x",
        "output": "secret words",
        "info": {"timings": timings, "error": error, "status": "completed"},
        "prompt_tokens": 64,
        "cached_tokens": 0,
        "output_tokens": tokens,
    }


def guidellm() -> dict[str, Any]:
    backend = {"kind": "openai_http", "target": "http://u:p@127.0.0.1:8000", "model": "mock"}
    backend |= {"request_format": "/v1/chat/completions", "api_key": "sesame"}

    def benchmark(strategy: dict[str, Any], start: float, **requests: Any) -> dict[str, Any]:
        return {
            "config": {"strategy": strategy, "backend": backend},
            "requests": {"successful": [], "errored": [], "incomplete": [], "total": None, **requests},
            "start_time": start,
            "end_time": start + 2.0,
        }

    data = {"kind": "synthetic_text", "prompt_tokens": 32, "path": "/home/me/data.json"}
    return {
        "metadata": {"version": 2, "guidellm_version": "0.8.1"},
        "config": {"spec": {"data": [data]}},
        "benchmarks": [
            benchmark(
                {"type_": "concurrent", "streams": 2},
                1_770_000_000.0,
                successful=[
                    guide_request(1_770_000_000.5, 1_770_000_000.75, 1_770_000_001.75, 11),
                    guide_request(1_770_000_000.0, 1_770_000_000.25, 1_770_000_000.75, 6),
                ],
            ),
            benchmark(
                {"type_": "constant", "rate": 2.0},
                1_770_000_010.0,
                successful=[guide_request(1_770_000_010.0, 1_770_000_010.5, 1_770_000_011.0, 6)],
                errored=[guide_request(1_770_000_010.5, 0.0, 0.0, 0, "HTTP 503")],
                incomplete=[guide_request(1_770_000_011.5, 0.0, 0.0, 0)],
            ),
        ],
    }


def document(foreign: Any) -> dict[str, Any]:
    """The document, valid by the published schema and free of what must not travel."""
    value = imported(foreign, "penny-bench import", "0.1.0")
    text = json.dumps(value, allow_nan=False)
    jsonschema.Draft202012Validator(schema()).validate(json.loads(text))
    for secret in ("sesame", "secret words", "/home", "/data", "u:p@"):
        assert secret not in text
    return value


def metrics(value: dict[str, Any]) -> dict[tuple[str, str], float]:
    return {(row["phase"], row["key"]): row["value"] for row in value["metrics"]}


def read(value: dict[str, Any], **more: Any) -> Any:
    return read_sglang("r.jsonl", json.dumps(value).encode(), WRITTEN, **more)


def test_sglang_of_a_chat_backend_has_pauses_of_events_and_no_itl() -> None:
    value = document(read(sglang()))
    assert value["status"] == "imported"
    assert value["imported"]["tool"] == "sglang"
    assert "pause between chunks" in value["imported"]["note"]
    assert value["started"] == "2026-02-03T04:05:06.000+00:00"
    assert value["server"]["model"] == "tiny"
    assert value["server"]["info"] == {"server_info": {"model_path": "tiny", "version": "0.5.23"}}
    summary = value["summary"]
    assert (summary["requests"], summary["succeeded"], summary["errors"]) == (3, 2, {"server": 1})
    assert summary["itl"] is None
    pauses = [0.1, 0.2, 0.1, 0.1, 0.1]
    assert summary["stalls"]["n"] == 5
    assert summary["stalls"]["mean"] == pytest.approx(np.mean(pauses))
    found = metrics(value)
    assert ("run", "itl_p50") not in found
    assert found["run", "stalls_p50"] == pytest.approx(0.1)
    assert found["run", "ttft_p50"] == pytest.approx(0.15)
    # To the last token: 0.1 + 0.3 and 0.2 + 0.3. TPOT: 0.3 / 5 and 0.3 / 3.
    assert found["run", "e2e_p50"] == pytest.approx(0.45)
    assert found["run", "tpot_p50"] == pytest.approx((0.06 + 0.1) / 2)
    assert (found["run", "output_rate"], found["run", "acceptance_length"]) == (5.0, 2.5)
    assert [request["sent"] for request in value["requests"]] == [None] * 3
    assert value["requests"][2]["failure"]["message"] == "TimeoutError: x is slow"
    assert value["cache"]["verdict"] == "unknown"


def test_sglang_of_the_native_backend_has_an_itl() -> None:
    value = document(read(sglang(backend="sglang")))
    assert value["summary"]["stalls"] is None
    assert value["summary"]["itl"]["n"] == 5
    assert ("run", "itl_p99") in metrics(value)


def test_sglang_with_a_cache_report() -> None:
    tiers = {"device": 16, "host": 24, "storage": None}
    value = document(read(sglang(cached_tokens=[40, 0, 0], cached_tokens_details=[tiers, None, None])))
    assert value["cache"] == {
        "verdict": "contaminated",
        "limit": 32,
        "reported": 2,
        "above": 1,
        "most": 40,
        "total": 40,
    }
    assert value["requests"][0]["cached"] == {"device": 16, "host": 24, "storage": None}


def test_sglang_without_details_has_what_it_states() -> None:
    lists = ("input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors")
    value = document(read({key: entry for key, entry in sglang().items() if key not in lists}))
    assert value["requests"] == []
    assert value["summary"]["ttft"] is None
    found = metrics(value)
    assert found["run", "ttft_p99"] == pytest.approx(0.2)
    assert found["run", "stalls_p50"] == pytest.approx(0.1)
    assert found["run", "e2e_p99"] == pytest.approx(0.5)
    assert "--output-details" in value["imported"]["note"]


def test_one_of_several_runs_of_sglang_must_be_named() -> None:
    data = b"\n".join(json.dumps(sglang(output_throughput=rate)).encode() for rate in (5.0, 7.0))
    with pytest.raises(BenchError, match="has 2 runs, one a line; name one with --number"):
        read_sglang("r.jsonl", data, WRITTEN)
    assert metrics(document(read_sglang("r.jsonl", data, WRITTEN, 2)))["run", "output_rate"] == 7.0
    with pytest.raises(BenchError, match="has no run 3; it has 2"):
        read_sglang("r.jsonl", data, WRITTEN, 3)


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(BenchError, match=r"lists of different lengths \(input_lens 3, .*ttfts 2"):
        read(sglang(ttfts=[0.1, 0.2]))


def test_vllm_has_arrivals_on_a_clock() -> None:
    value = document(read_vllm("r.json", json.dumps(vllm()).encode(), WRITTEN))
    first, second = value["requests"]
    assert (first["sent"], second["sent"]) == (0.0, 0.5)
    assert first["arrivals"] == [[0.2, None], [0.3, None], [0.4, None]]
    assert second["arrivals"] == [[0.8, None], [1.05, None]]
    assert second["latency"] == {
        "ttft": 0.3,
        "ttft_content": None,
        "tpot": pytest.approx(0.25 / 3),
        "e2e": pytest.approx(0.55),
    }
    assert value["started"] == datetime(2026, 1, 31, 12).astimezone(UTC).isoformat(timespec="milliseconds")
    assert value["server"]["model"] == "Qwen/Qwen3-8B"
    assert value["summary"]["itl"] is None
    assert value["summary"]["stalls"]["maximum"] == 0.25
    # The first request brought 3 tokens in 3 events, the second 4 tokens in 2: only there ITL is unknown.
    laid = report_of(parse_document("x.json", json.dumps(value).encode()))
    table = next(each for each in laid.sections if each.key == "latency").tables[0]
    assert {row[0]: row[2] for row in table.rows}["ITL"] == "2"


def test_vllm_without_a_date_or_details() -> None:
    short = {key: entry for key, entry in vllm().items() if not isinstance(entry, list)}
    value = document(read_vllm("r.json", json.dumps({**short, "date": None, "failed": 3}).encode(), WRITTEN))
    assert value["started"].startswith("2026-02-03T04:05:06")
    assert (value["summary"]["requests"], value["summary"]["errors"]) == (5, {"server": 3})
    assert metrics(value)["run", "ttft_p99"] == pytest.approx(0.299)


def test_guidellm_makes_a_phase_of_each_benchmark() -> None:
    value = document(read_guidellm("r.json", json.dumps(guidellm()).encode()))
    assert [(p["name"], p["started"], p["ended"], p["streams"]) for p in value["phases"]] == [
        ("concurrent 2", 0.0, 2.0, 2),
        ("constant 2/s", 10.0, 12.0, None),
    ]
    assert value["imported"]["version"] == "0.8.1"
    assert value["server"]["url"] == "http://127.0.0.1:8000"
    assert value["workload"]["settings"]["data"] == [{"kind": "synthetic_text", "prompt_tokens": 32}]
    sent = [(r["number"], r["phase"], r["sent"]) for r in value["requests"]]
    assert sent == [
        (0, "concurrent 2", 0.0),
        (1, "concurrent 2", 0.5),
        (2, "constant 2/s", 10.0),
        (3, "constant 2/s", 10.5),
        (4, "constant 2/s", 11.5),
    ]
    second = value["requests"][1]
    assert second["latency"] == {
        "ttft": pytest.approx(0.25, abs=1e-6),
        "ttft_content": pytest.approx(0.3, abs=1e-6),
        "tpot": pytest.approx(0.1, abs=1e-6),
        "e2e": pytest.approx(1.25, abs=1e-6),
    }
    assert [request["failure"] and request["failure"]["kind"] for request in value["requests"]] == [
        None,
        None,
        None,
        "server",
        "interrupted",
    ]
    found = metrics(value)
    assert found["concurrent 2", "output_rate"] == pytest.approx(17 / 2)
    assert found["constant 2/s", "request_rate"] == pytest.approx(0.5)
    assert value["summary"]["itl"] is value["summary"]["stalls"] is None
    assert value["cache"]["verdict"] == "clean"
    assert value["seconds"] == 12.0


def test_benchmarks_of_one_name_are_told_apart() -> None:
    report = guidellm()
    report["benchmarks"][1]["config"]["strategy"] = report["benchmarks"][0]["config"]["strategy"]
    value = document(read_guidellm("r.json", json.dumps(report).encode()))
    assert [phase["name"] for phase in value["phases"]] == ["concurrent 2", "concurrent 2 #2"]
    report["benchmarks"] = []
    with pytest.raises(BenchError, match="holds no benchmark"):
        read_guidellm("r.json", json.dumps(report).encode())


READERS: list[Callable[[bytes], Any]] = [
    lambda data: read_sglang("x", data, WRITTEN),
    lambda data: read_vllm("x", data, WRITTEN),
    lambda data: read_guidellm("x", data),
]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("data", [b"{", b"[]", b'{"backend": 3}', b"\xff\xfe\x00"])
def test_anything_else_is_refused_in_a_sentence(reader: Callable[[bytes], Any], data: bytes) -> None:
    with pytest.raises(BenchError, match=r"x is no result of .*; give "):
        reader(data)


def test_settings_that_differ_have_different_digests() -> None:
    first, same, other = (
        document(read(sglang(max_concurrency=n, output_throughput=rate)))["workload"]["digest"]
        for n, rate in ((2, 5.0), (2, 6.0), (4, 5.0))
    )
    assert first == same != other


def invoke(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(import_result)
    return CliRunner().invoke(app, list(arguments))


def test_imported_documents_are_compared_and_put_into_history(tmp_path: Path) -> None:
    for i, rate in enumerate((5.0, 5.1, 6.0, 6.1)):
        source = tmp_path / f"r{i}.jsonl"
        value = sglang(output_throughput=rate, errors=["", "", ""], ttfts=[0.1, 0.2, 0.3], completed=3)
        source.write_text(json.dumps(value))
        os.utime(source, (1_770_000_000 + i, 1_770_000_000 + i))
        done = invoke("sglang", str(source), "--json", str(tmp_path / f"d{i}.json"))
        assert done.exit_code == 0, done.output
        assert "3 of 3 requests succeeded" in done.stdout
    found = find([tmp_path])
    assert len(found.entries) == 4
    assert len({entry.setting for entry in found.entries}) == 1
    assert found.entries[0].setting.tool == "sglang"
    sides = [",".join(str(tmp_path / f"d{i}.json") for i in side) for side in ((0, 1), (2, 3))]
    out = tmp_path / "compare.out"
    app = typer.Typer()
    app.command()(compare)
    done = CliRunner().invoke(app, [*sides, "--metric", "output_rate", "--json", str(out)])
    assert done.exit_code == 0, done.output
    (row,) = json.loads(out.read_text())["rows"]
    assert row["mean_b"] / row["mean_a"] == pytest.approx((6.0 * 6.1 / (5.0 * 5.1)) ** 0.5)


def test_the_command_refuses(tmp_path: Path) -> None:
    target = str(tmp_path / "out.json")
    missing = invoke("vllm", str(tmp_path / "none.json"), "--json", target)
    assert "Could not read" in str(missing.exception)
    wrong = invoke("vllm", str(tmp_path / "none.json"), "--json", target, "--number", "1")
    assert "--number is for files of SGLang" in str(wrong.exception)
    assert invoke("aiperf", "x", "--json", target).exit_code == 2
