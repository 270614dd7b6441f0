"""What the sections of a report compute, from a document small enough to check by hand."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from penny_bench.errors import BenchError
from penny_bench.report.plot import ecdf, edges, histogram, sample, wide
from penny_bench.report.read import Document, parse_document, read_document
from penny_bench.report.section import Section
from penny_bench.report.sections import report_of, reports_of
from penny_bench.report.sections.cached import split
from penny_bench.report.sections.gpu import joules
from penny_bench.report.sections.stages import stages
from penny_bench.report.sections.tokens import bin_width, open_streams, per_bin
from penny_bench.report.sheet import sheet
from penny_bench.report.units import ms, number, time


def request(number: int, phase: str | None, sent: float, **more: Any) -> dict[str, Any]:
    """First token 0.5 s after sent, then 2 tokens at 0.6 s and 4 at 1 s; reasoning up to 0.6 s."""
    value = {
        "number": number,
        "scheduled": sent,
        "asked": {"prompt_tokens": 100, "tokens": 7},
        "sent": sent,
        "first_byte": sent + 0.4,
        "first_token": sent + 0.5,
        "first_reasoning": sent + 0.5,
        "first_content": sent + 0.6,
        "last_token": sent + 1.0,
        "ended": sent + 1.01,
        "arrivals": [[sent + 0.5, 1], [sent + 0.6, 3], [sent + 1.0, 7]],
        "usage": {"prompt_tokens": 100, "cached_tokens": 40, "output_tokens": 7, "reasoning_tokens": 1},
        "latency": {"ttft": 0.5, "ttft_content": 0.6, "tpot": 0.5 / 6, "e2e": 1.0},
        "finish_reason": "length",
        "failure": None,
        **({"phase": phase} if phase else {}),
    }
    return {**value, **more}


def failed(number: int, phase: str | None, sent: float) -> dict[str, Any]:
    nothing = dict.fromkeys(
        ("first_byte", "first_token", "first_reasoning", "first_content", "last_token", "latency")
    )
    usage = {"usage": dict.fromkeys(("prompt_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"))}
    failure = {"kind": "http", "message": "HTTP 503: busy.", "status": 503}
    return request(number, phase, sent, **nothing, **usage, arrivals=[], failure=failure, ended=sent + 0.1)


def run(*requests: dict[str, Any], **more: Any) -> Document:
    value = {
        "schema": "penny-bench/run/1",
        "status": "complete",
        "command": "penny-bench run --url http://127.0.0.1:8000",
        "started": "2026-01-02T03:04:05.000+00:00",
        "seconds": 4.0,
        "server": {"url": "http://127.0.0.1:8000/v1", "model": "m", "extensions": True, "info": {}},
        "requests": list(requests),
        **more,
    }
    return Document("run.json", "0" * 64, value)


def section(document: Document, key: str) -> Section:
    return next(each for each in report_of(document).sections if each.key == key)


def test_an_entry_has_the_itl_that_its_counts_tell() -> None:
    entry = sheet(run(request(0, None, 1.0))).entries[0]
    assert entry.itl is not None
    np.testing.assert_allclose(entry.itl, [0.05] * 2 + [0.1] * 4)
    np.testing.assert_allclose(entry.spread, [1, 2, 4])
    assert entry.rate == pytest.approx(12.0)
    assert entry.phase == "run"


def test_events_without_counts_have_no_itl_and_their_tokens_are_spread() -> None:
    arrivals = [[0.5, None], [0.6, None], [1.0, None]]
    entry = sheet(run(request(0, None, 0.0, arrivals=arrivals))).entries[0]
    assert entry.itl is None
    np.testing.assert_allclose(entry.spread, [7 / 3] * 3)
    found = section(run(request(0, None, 0.0, arrivals=arrivals)), "latency")
    assert "ITL" not in [row[0] for row in found.tables[0].rows]
    assert any("no ITL" in line for line in found.lines)


def test_decode_groups_lie_one_behind_the_other_without_warmups() -> None:
    record = {
        "sent": 0.0,
        "ended": 1.0,
        "arrivals": [{"t": 0.5, "tokens": 1}, {"t": 1.0, "tokens": 5}],
        "first_byte": 0.5,
        "first_reasoning": None,
        "first_answer": 0.5,
        "prompt_tokens": 10,
        "cached_tokens": 0,
        "output_tokens": 5,
        "reasoning_tokens": None,
        "finish_reason": "length",
        "failure": None,
    }
    group = {"concurrency": 1, "warmup": False, "records": [record], "seconds": 2.0}
    value = {
        "schema": "penny-bench/decode/1",
        "groups": [{**group, "warmup": True}, group, group],
        "summary": [{"concurrency": 1, "aggregate": {"median": 8.0, "n": 2}, "ttft": None}],
        "server": {"model": "m", "extensions": True},
        "plan": {},
    }
    laid = sheet(Document("decode.json", "0" * 64, value))
    assert [(span.label, span.started, span.ended) for span in laid.spans] == [
        ("C1, run 1", 0.0, 2.0),
        ("C1, run 2", 2.0, 4.0),
    ]
    assert [entry.first_token for entry in laid.entries] == [0.5, 2.5]
    np.testing.assert_allclose(laid.entries[1].times, [2.5, 3.0])
    assert laid.entries[0].latency == {"ttft": 0.5, "ttft_content": 0.5, "tpot": 0.125, "e2e": 1.0}
    assert [(m.phase, m.key, m.value, m.text) for m in laid.metrics] == [("C1", "aggregate", 8.0, "8 tok/s")]


def test_stages_follow_the_servers_spans() -> None:
    spans = {"queue": 0.1, "prefill": 0.3, "post_prefill": 0.05, "source": "sglang"}
    entry = sheet(run(request(0, None, 2.0, spans=spans))).entries[0]
    found = [(stage.name, round(stage.start, 6), round(stage.end, 6)) for stage in stages(entry)]
    assert found == [
        ("queue", 0.0, 0.1),
        ("prefill", 0.1, 0.4),
        ("post-prefill", 0.4, 0.45),
        ("to the first token", 0.4, 0.5),
        ("reasoning", 0.5, 0.6),
        ("content", 0.6, 1.0),
        ("end", 1.0, 1.01),
    ]


def test_a_prefill_without_a_queue_ends_at_the_first_token() -> None:
    spans = {"queue": None, "prefill": 0.3, "post_prefill": 0.4, "source": "llama.cpp timings"}
    entry = sheet(run(request(0, None, 2.0, spans=spans))).entries[0]
    found = [(stage.name, round(stage.start, 6), round(stage.end, 6)) for stage in stages(entry)]
    assert found[:3] == [
        ("to the first token", 0.0, 0.2),
        ("prefill", 0.2, 0.5),
        ("post-prefill", 0.5, 0.9),
    ]


def test_stages_without_spans_and_of_a_failed_request() -> None:
    plain, bad = sheet(run(request(0, None, 0.0), failed(1, None, 3.0))).entries
    assert [stage.name for stage in stages(plain)] == ["to the first token", "reasoning", "content", "end"]
    assert [(stage.name, round(stage.end, 6)) for stage in stages(bad)] == [("to the first token", 0.1)]
    told = section(run(request(0, None, 0.0), failed(1, None, 3.0)), "waterfall")
    assert [choice.label for choice in told.figures[0].choices] == [
        "No. 0, slowest, 1 s (run)",
        "No. 0, median, 1 s (run)",
        "No. 1, failed: http, 100 ms (run)",
    ]
    assert any("did not tell its own spans" in line for line in told.lines)


def test_tokens_over_time_are_the_servers() -> None:
    entries = list(sheet(run(request(0, None, 0.0), request(1, None, 0.25))).entries)
    bounds = np.array([0.0, 0.5, 1.0, 1.5])
    # No. 0 brings 1 at 0.5, 2 at 0.6, 4 at 1.0; No. 1 the same 0.25 s later.
    np.testing.assert_allclose(per_bin(entries, bounds), [0, 1 + 2 + 1 + 2, 4 + 4])
    waiting, decoding = open_streams(entries, bounds)
    # Waiting: 0 to 0.5 and 0.25 to 0.75. Decoding: 0.5 to 1.0 and 0.75 to 1.25.
    np.testing.assert_allclose(waiting, [(0.5 + 0.25) / 0.5, 0.25 / 0.5, 0.0])
    np.testing.assert_allclose(decoding, [0.0, (0.5 + 0.25) / 0.5, 0.25 / 0.5])


def test_bins_are_round_and_few() -> None:
    assert [bin_width(seconds) for seconds in (1.0, 30.0, 400.0, 3600.0)] == [0.05, 0.1, 1.0, 10.0]


def test_ecdf_is_that_of_scipy() -> None:
    values = np.random.default_rng(1).lognormal(size=150)
    x, share = ecdf(values)
    own = stats.ecdf(values).cdf
    np.testing.assert_allclose(x, own.quantiles, rtol=1e-4)
    np.testing.assert_allclose(share, own.probabilities, rtol=1e-4)


def test_ecdf_of_many_values_keeps_the_tail() -> None:
    values = np.arange(1.0, 100_001.0)
    x, share = ecdf(values)
    assert len(x) < 300
    assert (x[-1], share[-1]) == (100_000.0, 1.0)
    np.testing.assert_allclose(np.array(x) / 100_000, share, rtol=1e-4)
    assert sum(0.99 < each < 1 for each in share) > 20


def test_histogram_counts_every_value() -> None:
    values = np.random.default_rng(2).lognormal(sigma=2, size=1000)
    bounds = edges(values)
    assert wide(values)
    np.testing.assert_allclose(np.diff(np.log(bounds)), np.log(bounds[1] / bounds[0]))
    x, counts = histogram(values, bounds)
    assert sum(counts) == 1000
    assert len(x) == len(counts) == 61
    assert histogram(np.array([3.0, 3.0]), edges(np.array([3.0, 3.0])))[1].count(2.0) == 1


def test_sample_keeps_both_ends() -> None:
    assert sample(5, 10) == [0, 1, 2, 3, 4]
    assert sample(101, 5) == [0, 25, 50, 75, 100]


def test_energy_is_the_area_below_the_power() -> None:
    samples = [
        {"gpu": gpu, "t": t, "power": 100.0 + 50.0 * t * gpu} for t in (0.0, 1.0, 4.0) for gpu in (0, 1)
    ]
    # GPU 0: 100 W for 2 s. GPU 1: 100 W rising by 50 W/s: 200 + 50 * 2^2 / 2.
    assert joules(samples, 0.0, 2.0) == pytest.approx(200 + 300)
    assert joules(samples[:2], 0.0, 2.0) is None


def test_prompt_tokens_are_split_by_tier() -> None:
    tiers = request(0, None, 0.0, cached={"device": 10, "host": 20, "storage": None})
    entries = sheet(run(tiers, request(1, None, 0.0))).entries
    assert split(entries[0]) == {"device": 10, "host": 20, "storage": 0, "tier not told": 10, "computed": 60}
    assert split(entries[1]) == {"device": 0, "host": 0, "storage": 0, "tier not told": 40, "computed": 60}
    row = section(run(tiers, request(1, None, 0.0)), "cache").tables[0].rows[0]
    assert row == ("run", "2", "200", "10", "20", "0", "50", "120", "40.0 %")


def test_rate_against_context_needs_different_contexts() -> None:
    same = section(run(request(0, None, 0.0), request(1, None, 0.0)), "context")
    assert same.absent is not None
    assert "100 to 100 tokens" in same.absent
    long = copy.deepcopy(request(1, None, 0.0))
    long["usage"]["prompt_tokens"] = 1000
    found = section(run(request(0, None, 0.0), long), "context")
    assert found.figures[0].data[0]["x"] == [100, 1000]
    assert found.figures[0].data[0]["y"] == [12.0, 12.0]
    assert [row[:3] for row in found.tables[0].rows] == [("100", "1", "12"), ("1,000", "1", "12")]


def test_stated_percentiles_come_before_computed_ones() -> None:
    stated = dict.fromkeys(("mean", "minimum", "p50", "p90", "p95", "p99", "maximum"), 0.25)
    phases = [
        {"name": "C1", "label": "1 stream", "warmup": False, "started": 0.0, "ended": 2.0, "streams": 1}
        | {"summary": {"ttft": {"n": 9, **stated}}, "cache": None}
    ]
    found = section(run(request(0, "C1", 0.0), request(1, "C4", 1.0), phases=phases), "latency")
    rows = {row[:2]: row[2:] for row in found.tables[0].rows}
    assert rows["TTFT", "C1"] == ("9", *["250"] * 6)
    assert rows["TTFT", "C4"] == ("1", *["500"] * 6)
    assert rows["ITL", "C4"][:2] == ("6", ms((2 * 0.05 + 4 * 0.1) / 6))


def test_checks_and_failures_are_told() -> None:
    rows = [
        {"case": "a", "name": "n", "passed": True, "detail": "", "points": 1, "of": 2},
        {"case": "b", "name": "n", "passed": False, "detail": "was 3", "points": 0, "of": 2},
        {"case": "c", "name": "n", "passed": None, "detail": "", "points": 0, "of": 0},
    ]
    checks = {"passed": 1, "failed": 1, "open": 1, "total": 3, "score": 1, "of": 4, "rows": rows}
    document = run(request(0, None, 0.0), failed(1, None, 0.0), checks=checks)
    found = section(document, "checks")
    assert found.alarm == ("1 check failed.",)
    assert [row[2:] for row in found.tables[0].rows] == [
        ("FAILED", "0 of 2", "was 3"),
        ("to be judged", "-", ""),
        ("passed", "1 of 2", ""),
    ]
    assert "Score: 1 of 4." in found.lines
    assert section(document, "failures").tables[0].rows == (("run", "http", "1", "HTTP 503: busy."),)


def test_alarms_name_what_weakens_the_numbers() -> None:
    cache = {"verdict": "contaminated", "limit": 32, "above": 1, "most": 40}
    lag = {"p50": 0.001, "p99": 0.08}
    document = run(
        request(0, None, 0.0),
        status="partial",
        cache=cache,
        client={"loop_lag": lag},
        notes=["The clock was set back."],
    )
    alarm = " ".join(section(document, "headline").alarm)
    for words in ("interrupted", "1 request had more than 32", "late by 80 ms", "The clock was set back."):
        assert words in alarm
    assert section(run(request(0, None, 0.0)), "headline").alarm == ()


def test_a_share_of_a_floor_is_shown() -> None:
    metric = {"phase": "C4", "key": "aggregate", "label": "decode, all", "value": 90.0, "values": [90.0]}
    metric |= {"unit": "tok/s", "better": "higher", "n": 1, "floor": 120.0, "share": 0.75}
    found = section(run(request(0, "C4", 0.0), metrics=[metric]), "headline")
    assert found.tables[0].rows == (("C4", "decode, all", "90 tok/s", "1", "120 tok/s", "75.0 %"),)
    assert found.tiles[0].remark == "C4, 75.0 % of floor"
    assert found.figures[0].data[0]["x"] == [75.0]


def test_the_servers_counters_are_drawn_and_what_they_grew_by_is_told() -> None:
    samples = [
        {"t": 2.0 * i, "running": i, "token_usage": 0.25 * i, "queued": None, "output_tokens": 100.0 + 50 * i}
        for i in range(3)
    ]
    server = {"model": "m", "samples": [*samples, {"t": 6.0, "running": None, "retracted": 1.0}]}
    found = section(run(request(0, None, 0.0), server=server), "server")
    assert [choice.label for choice in found.figures[0].choices] == ["requests running", "KV pool in use, %"]
    trace = found.figures[0].choices[1].data[0]
    assert (trace["x"], trace["y"]) == ([0.0, 2.0, 4.0], [0.0, 25.0, 50.0])
    assert found.tables[0].rows == (
        ("requests running", "0", "1", "2"),
        ("KV pool in use, %", "0", "25", "50"),
    )
    assert found.tables[1].rows == (("output tokens", "100"),)


def test_results_stand_side_by_side() -> None:
    def metric(phase: str, key: str, value: float) -> dict[str, Any]:
        return {"phase": phase, "key": key, "label": key, "value": value, "unit": "tok/s"}

    one = run(request(0, "C1", 0.0), metrics=[metric("C1", "a", 1.0), metric("C4", "a", 2.0)])
    two = run(request(0, "C1", 0.0), metrics=[metric("C1", "b", 3.0), metric("C4", "a", 4.0)])
    other = Document("two.json", "1" * 64, two.value)
    first = reports_of([one, other])[0]
    (table,) = first.sections[0].tables
    assert table.heads == ("phase", "metric", "run.json", "two.json")
    assert table.rows == (
        ("C1", "a", "1 tok/s", "-"),
        ("C1", "b", "-", "3 tok/s"),
        ("C4", "a", "2 tok/s", "4 tok/s"),
    )
    assert [each.title for each in reports_of([one])] == [report_of(one).title]


def test_tiles_show_a_number_of_each_phase() -> None:
    def metric(phase: str, key: str) -> dict[str, Any]:
        return {"phase": phase, "key": key, "label": key, "value": 1.0, "unit": "s"}

    metrics = [metric(phase, key) for phase in ("C1", "C4") for key in ("a", "b", "c")]
    found = section(run(request(0, "C1", 0.0), metrics=metrics), "headline")
    assert [(tile.remark, tile.label) for tile in found.tiles] == [
        ("C1", "a"),
        ("C4", "a"),
        ("C1", "b"),
        ("C1", "c"),
    ]


def test_what_is_missing_is_said_in_a_sentence() -> None:
    for each in report_of(run(request(0, None, 0.0))).sections:
        if each.absent:
            assert each.absent.endswith(".")
            assert not each.figures
        else:
            assert each.figures or each.tables or each.lines
        for figure in each.figures:
            traces = [trace for choice in figure.choices for trace in choice.data] or figure.data
            assert all(len(trace["x"]) > 0 for trace in traces)
    absent = {each.key for each in report_of(run(request(0, None, 0.0))).sections if each.absent}
    assert absent == {"headline", "checks", "context", "acceptance", "gpu", "server"}


def test_a_run_in_which_all_failed_still_has_a_report() -> None:
    made = report_of(run(failed(0, None, 0.0)))
    keys = {each.key for each in made.sections if not each.absent}
    assert {"failures", "gantt", "setup"} <= keys
    assert "latency" not in keys


def test_units() -> None:
    assert [number(v) for v in (None, 0, 12, 1234.5, 0.12345, 9.99996, 150.26)] == [
        "-",
        "0",
        "12",
        "1,234",
        "0.123",
        "10.00",
        "150.3",
    ]
    assert [time(v) for v in (0.0123, 1.5, 90.0, 150.0, 4000.0)] == [
        "12.3 ms",
        "1.50 s",
        "90 s",
        "2 min 30 s",
        "1 h 06 min",
    ]


def test_files_that_are_no_documents_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="no JSON document"):
        parse_document("x.json", b"{")
    with pytest.raises(BenchError, match="schema None; expected"):
        parse_document("x.json", b"[1]")
    with pytest.raises(BenchError, match="Could not read"):
        read_document(tmp_path / "none.json")
