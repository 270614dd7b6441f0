"""Many results over time: series, changes, what is left out, and how it is shown."""

import io
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from penny_bench.errors import BenchError
from penny_bench.history import Series, entry_of, find, history, history_report, print_history, sparkline
from penny_bench.history import commands as module
from penny_bench.report import Document


def run(day: int, value: float, ttft: float = 0.2, **more: Any) -> dict[str, Any]:
    metrics = [
        {"phase": "C4", "key": "aggregate", "label": "decode, all", "value": value, "unit": "tok/s"}
        | {"better": "higher", "n": 3, "floor": None, "share": None},
        {"phase": "C4", "key": "ttft", "label": "TTFT", "value": ttft, "unit": "s"}
        | {"better": "lower", "n": 12, "floor": None, "share": None},
    ]
    return {
        "schema": "penny-bench/run/1",
        "status": "complete",
        "command": "penny-bench run --workload decode-short",
        "started": f"2026-01-{day:02}T12:00:00.000+00:00",
        "versions": {"penny_bench": "0.1.0"},
        "machine": {"gpus": [{"index": i, "name": "RTX", "driver": "610.57"} for i in (0, 1)]},
        "server": {"model": "m", "info": {"server_info": {"version": "0.5.23"}}},
        "workload": {"name": "decode-short", "version": 2, "digest": "abcdef0123"},
        "metrics": metrics,
        "cache": {"verdict": "clean"},
        "summary": {"errors": {}},
        "requests": [],
        **more,
    }


def series(*values: dict[str, Any]) -> list[Series]:
    documents = [Document(f"{i}.json", f"{i:064}", value) for i, value in enumerate(values)]
    return history(entry_of(document) for document in documents)


def test_values_are_in_order_of_date_with_their_changes() -> None:
    rate, ttft = series(run(3, 90.0, 0.3), run(1, 100.0, 0.2), run(2, 120.0, 0.1))
    assert (rate.title, rate.unit, rate.better) == ("C4 decode, all", "tok/s", "higher")
    assert [point.metric.value for point in rate.points] == [100.0, 120.0, 90.0]
    assert [point.to_previous for point in rate.points] == [None, pytest.approx(0.2), pytest.approx(-0.25)]
    assert [point.to_best for point in rate.points] == [pytest.approx(-1 / 6), 0.0, pytest.approx(-0.25)]
    # For a time the best is the least.
    assert [point.to_best for point in ttft.points] == [pytest.approx(1.0), 0.0, pytest.approx(2.0)]


def test_a_value_in_doubt_is_neither_best_nor_predecessor() -> None:
    rate, _ = series(
        run(1, 100.0),
        run(2, 500.0, status="partial"),
        run(3, 600.0, cache={"verdict": "contaminated"}),
        run(4, 700.0, summary={"errors": {"http": 2}}),
        run(5, 110.0),
    )
    assert [point.entry.doubts for point in rate.points] == [
        (),
        ("partial",),
        ("prefix cache",),
        ("2 failed",),
        (),
    ]
    assert [point.to_previous for point in rate.points][1:] == pytest.approx([4.0, 5.0, 6.0, 0.1])
    assert rate.points[-1].to_best == 0.0


def test_unlike_settings_are_series_of_their_own() -> None:
    other = {"name": "decode-short", "version": 2, "digest": "ffff"}
    gpu = {"gpus": [{"index": 0, "name": "H200", "driver": "580"}]}
    imported = {"tool": "vllm", "version": None, "note": "."}
    found = series(
        run(1, 1.0),
        run(2, 2.0, workload=other),
        run(3, 3.0, server={"model": "n", "info": {}}),
        run(4, 4.0, machine=gpu),
        run(5, 5.0, imported=imported),
        run(6, 6.0, machine=None),
        run(7, 7.0),
    )
    rates = [each for each in found if each.key == "aggregate"]
    assert [[point.metric.value for point in each.points] for each in rates] == [
        [1.0, 7.0],
        [2.0],
        [3.0],
        [4.0],
        [5.0],
        [6.0],
    ]
    assert rates[0].setting.title == "decode-short 2 (abcdef01), m, 2 x RTX"
    assert rates[4].setting.title.endswith("measured by vllm")
    assert rates[5].setting.gpu == "no GPU"
    assert rates[2].points[0].entry.server == "-"


def test_a_load_without_a_workload_is_told_by_its_plan_but_not_its_seed() -> None:
    plan = {"load": {"kind": "poisson", "rate": 4.0}, "tokens": 128, "seed": 1}
    found = series(
        run(1, 1.0, workload=None, plan=plan),
        run(2, 2.0, workload=None, plan={**plan, "seed": 2}),
        run(3, 3.0, workload=None, plan={**plan, "tokens": 256}),
    )
    assert [len(each.points) for each in found if each.key == "aggregate"] == [2, 1]
    assert found[0].setting.workload == "run poisson"


def test_older_documents_get_the_metrics_of_their_summary() -> None:
    summary = {"errors": {}, "succeeded": 9, "output_rate": 50.0, "request_rate": None}
    summary["ttft"] = {"p50": 0.1, "p99": 0.3, "n": 9}
    document = run(1, 1.0, summary=summary)
    del document["metrics"]
    assert [(each.phase, each.key, each.points[0].metric.value) for each in series(document)] == [
        ("run", "output_rate", 50.0),
        ("run", "ttft_p50", 0.1),
        ("run", "ttft_p99", 0.3),
    ]


def test_decode_documents_have_a_history_too() -> None:
    rows = [{"concurrency": 8, "aggregate": {"median": 80.0, "n": 3}, "failures": {"HTTP 503.": 2}}]
    document = {
        "schema": "penny-bench/decode/1",
        "started": "2026-01-01T00:00:00+00:00",
        "client": {"penny_bench": "0.0.9"},
        "server": {"model": "m"},
        "plan": {"tokens": 256, "seed": 7},
        "summary": rows,
    }
    (found,) = series(document)
    assert (found.title, found.points[0].metric.value) == ("C8 decode, all", 80.0)
    assert found.points[0].entry.doubts == ("2 failed",)
    assert found.points[0].entry.penny_bench == "0.0.9"
    assert found.setting.workload == "decode"


def test_a_document_without_a_date_is_refused() -> None:
    with pytest.raises(BenchError, match="`started` is None; expected a time"):
        entry_of(Document("x.json", "0", run(1, 1.0, started=None)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    deep = tmp_path / "deep" / "er"
    deep.mkdir(parents=True)
    (tmp_path / "a.json").write_text(json.dumps(run(1, 100.0)))
    (deep / "b.json").write_text(json.dumps(run(2, 110.0, command="<b>x</b>")))
    (deep / "copy.json").write_text(json.dumps(run(1, 100.0)))
    (deep / "other.json").write_text("[]")
    (deep / "note.txt").write_text("no")
    return tmp_path


def test_folders_are_searched_to_the_bottom(folder: Path) -> None:
    found = find([folder, folder / "a.json"])
    assert sorted(entry.name for entry in found.entries) == ["a.json", "b.json"]
    assert {name for name, _ in found.left_out} == {"copy.json", "other.json"}
    assert dict(found.left_out)["copy.json"] == "It is the same as a.json."


def test_nothing_to_show_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="No result of penny-bench was found"):
        find([tmp_path])
    with pytest.raises(BenchError, match="There is no"):
        find([tmp_path / "none"])


def test_sparkline() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([5, 5]) == "▄▄"
    assert sparkline([0, 10, 0, 7], width=3) == "█▁▆"


def test_the_table_has_changes_and_versions() -> None:
    out = io.StringIO()
    print_history(series(run(1, 100.0), run(2, 90.0)), [("x.json", "Bad.")], Console(file=out, width=160))
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert [
        "2026-01-01",
        "12:00",
        "100",
        "tok/s",
        "-",
        "best",
        "3",
        "0.5.23",
        "0.1.0",
        "610.57",
        "0.json",
    ] in lines
    assert lines[5][2:9] == ["90", "tok/s", "-10.0", "%", "-10.0", "%", "3"]
    assert "C4 decode, all  █▁  2 values, higher is better" in out.getvalue()
    assert "Left out: 1 file; the first is x.json. Bad." in out.getvalue()


def test_the_page_has_a_trend_for_each_metric() -> None:
    found = series(run(1, 100.0, 0.2), run(2, 90.0, 0.25, status="partial", command="<i>c</i>"))
    (section,) = history_report(found, []).sections
    (figure,) = section.figures
    assert [choice.label for choice in figure.choices] == ["C4 decode, all, tok/s", "C4 TTFT, ms"]
    (trace,) = figure.choices[1].data
    assert trace["x"] == ["2026-01-01T12:00:00+00:00", "2026-01-02T12:00:00+00:00"]
    assert trace["y"] == [200.0, 250.0]
    assert trace["marker"]["symbol"] == ["circle", "circle-open"]
    assert "server 0.5.23, penny-bench 0.1.0" in trace["text"][0]
    assert "&lt;i&gt;c&lt;/i&gt;" in trace["text"][1]
    (alone,) = history_report(series(run(1, 1.0)), []).sections
    assert alone.figures == ()
    assert any("one result only" in line for line in alone.lines)


def invoke(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(module.history)
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "160"})


def test_the_command_writes_json_and_html(folder: Path) -> None:
    out, page = folder / "out.jsn", folder / "out.html"
    done = invoke(str(folder), "--metric", "ttft", "--json", str(out), "--html", str(page))
    assert done.exit_code == 0, done.output
    value = json.loads(out.read_text())
    assert value["schema"] == "penny-bench/history/1"
    (only,) = value["series"]
    assert (only["key"], [point["file"] for point in only["points"]]) == ("ttft", ["a.json", "b.json"])
    assert len(value["left_out"]) == 2
    tags: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append(tag)  # type: ignore[method-assign]
    parser.feed(page.read_text(encoding="utf-8"))
    assert "table" in tags
    assert "b" not in tags


def test_an_unknown_metric_is_refused(folder: Path) -> None:
    done = invoke(str(folder), "--metric", "speed")
    assert isinstance(done.exception, BenchError)
    assert str(done.exception) == "No result has a metric 'speed'; these are there: aggregate, ttft."
