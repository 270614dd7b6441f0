"""The HTML file and the Markdown of a report, read back by independent parsers."""

import json
import random
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import typer
from markdown_it import MarkdownIt
from typer.testing import CliRunner

from penny_bench.errors import BenchError
from penny_bench.report.commands import report
from penny_bench.report.html import html, script_json
from penny_bench.report.markdown import escaped, markdown
from penny_bench.report.read import Document
from penny_bench.report.sections import report_of

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)> | `x` [a](javascript:b) & \u2028"
VOID = {"meta", "img", "br", "link", "input"}


def request(number: int, phase: str, arrivals: int, sent: float) -> dict[str, Any]:
    events = [[round(sent + 0.5 + 0.02 * i, 6), 2 * (i + 1)] for i in range(arrivals)]
    last = events[-1][0]
    return {
        "number": number,
        "scheduled": sent,
        "asked": {"prompt_tokens": 100, "tokens": 2 * arrivals},
        "sent": sent,
        "first_byte": sent + 0.5,
        "first_token": sent + 0.5,
        "first_reasoning": None,
        "first_content": sent + 0.5,
        "last_token": last,
        "ended": last + 0.001,
        "arrivals": events,
        "usage": {
            "prompt_tokens": 100 * (1 + number % 5),
            "cached_tokens": 50,
            "output_tokens": 2 * arrivals,
            "reasoning_tokens": None,
        },
        "latency": {"ttft": 0.5, "ttft_content": 0.5, "tpot": 0.01, "e2e": last - sent},
        "finish_reason": "length",
        "failure": None,
        "phase": phase,
        "case": EVIL,
        "turn": None,
        "spans": {"queue": 0.1, "prefill": 0.3, "post_prefill": 0.05, "source": "sglang"},
        "cached": {"device": 10, "host": 20, "storage": 20},
        "speculation": {
            "verify": 10,
            "accepted": 10,
            "proposed": 30,
            "acceptance_length": 2.0,
            "histogram": [2, 6, 2],
        },
    }


def run(requests: int = 6, arrivals: int = 10) -> Document:
    made = [request(i, f"C{1 + i % 2}", arrivals, 0.3 * i) for i in range(requests)]
    made[-1] |= {"failure": {"kind": "http", "message": EVIL, "status": 503}, "latency": None}
    samples = [
        {
            "t": t / 2,
            "gpu": 0,
            "power": 200.0,
            "graphics_clock": 2500,
            "memory_clock": 9000,
            "temperature": 50,
        }
        for t in range(30)
    ]
    metric = {
        "phase": "C1",
        "key": "aggregate",
        "label": EVIL,
        "value": 90.0,
        "values": [90.0],
        "unit": "tok/s",
    }
    check = {"case": EVIL, "name": EVIL, "passed": False, "detail": EVIL, "points": 0, "of": 1}
    spans = [("C1", 0.0, 1.0), ("C2", 1.0, 3.0)]
    value = {
        "schema": "penny-bench/run/1",
        "status": "complete",
        "command": f"penny-bench run --model {EVIL}",
        "started": "2026-01-02T03:04:05.000+00:00",
        "seconds": 10.0,
        "versions": {"penny_bench": "0.1.0"},
        "machine": {"cpu": EVIL, "gpus": [{"index": 0, "name": EVIL, "driver": "1"}], "gpu_samples": samples},
        "server": {
            "url": "http://127.0.0.1:8000/v1",
            "model": EVIL,
            "extensions": True,
            "info": {EVIL: EVIL},
        },
        "workload": {"name": "w", "title": EVIL, "version": 1, "digest": "ab", "kind": "decode"},
        "phases": [
            {"name": name, "label": EVIL, "warmup": False, "started": start, "ended": end, "streams": 1}
            | {"summary": None, "cache": None}
            for name, start, end in spans
        ],
        "metrics": [{**metric, "better": "higher", "n": 1, "floor": 120.0, "share": 0.75}],
        "checks": {"passed": 0, "total": 1, "score": 0, "of": 1, "rows": [check]},
        "speculation": made[0]["speculation"],
        "requests": made,
    }
    return Document(f"{EVIL}.json", "0" * 64, value)


def comparison() -> Document:
    row = {
        "workload": "decode-short",
        "phase": "C4",
        "metric": "aggregate",
        "label": "decode, all",
        "unit": "tok/s",
        "a": [100.0, 100.0],
        "b": [105.0, 115.0],
        "mean_a": 100.0,
        "mean_b": 110.0,
        "change": 0.10,
        "ratio": {"low": 1.04, "high": 1.18, "spread": 0.02},
        "p": 0.012,
        "verdict": "better",
    }
    older = {
        **row,
        "concurrency": 4,
        "ratio": None,
        "p": None,
        "verdict": "worse",
        "metric": EVIL,
        "label": None,
    }
    del older["workload"], older["phase"], older["b"]
    nothing = {**row, "phase": "C8", "change": None, "ratio": None, "p": None, "verdict": None}
    value = {
        "schema": "penny-bench/compare/1",
        "command": "penny-bench compare a b",
        "a": [{}] * 4,
        "b": [{}] * 4,
        "settings": {"alpha": 0.05, "margin": 0.03},
        "rows": [row, older, nothing],
        "verdict": "worse",
        "sentence": "B is worse than A.",
        "notes": [],
    }
    return Document("compare.json", "1" * 64, value)


class Page(HTMLParser):
    """Collects what a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.crossed: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.crossed.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        else:
            self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(html("Two", [report_of(run()), report_of(comparison())], "0.1.0"))


def test_the_page_is_whole_and_carries_no_tag_of_a_document(page: Page) -> None:
    assert page.crossed == []
    assert page.open == []
    assert page.all("img") == []
    assert len(page.scripts) == 3
    assert "alert(1)" in "".join(page.text)  # as text
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_the_page_loads_nothing(page: Page) -> None:
    for tag, attributes in page.tags:
        assert "src" not in attributes, tag
        assert (attributes.get("href") or "#").startswith("#"), tag
    policy = [each["content"] for each in page.all("meta") if each.get("http-equiv")]
    assert policy
    assert (policy[0] or "").startswith("default-src 'none'")


def test_plotly_is_there_once(page: Page) -> None:
    assert [len(script) > 3_000_000 for script in page.scripts] == [False, True, False]


def test_links_labels_and_figures_find_their_elements(page: Page) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    links = [(each["href"] or "")[1:] for each in page.all("a")]
    assert set(links) <= set(ids)
    assert len(links) > 12
    figures = json.loads(page.scripts[0])
    drawn = [each["id"] for each in page.all("div") if each.get("class") == "plot"]
    assert list(figures) == drawn
    pickers = page.all("select")
    assert {each["id"] for each in pickers} == {each["for"] for each in page.all("label")}
    assert {each["data-figure"] for each in pickers} <= set(figures)
    for each in page.all("div"):
        if each.get("class") == "plot":
            assert each["role"] == "img"
            assert each["aria-label"]


def test_every_figure_has_points(page: Page) -> None:
    figures = json.loads(page.scripts[0])
    assert len(figures) == 12
    for key, figure in figures.items():
        sets = figure["choices"] or [figure["data"]]
        assert all(traces and all(len(trace["x"]) for trace in traces) for traces in sets), key
        assert figure["layout"]["height"] >= 100


def test_the_forest_has_the_intervals(page: Page) -> None:
    points, dots = json.loads(page.scripts[0])["d2-comparison-f1"]["data"]
    assert points["x"] == [10.0, 10.0]
    assert points["error_x"]["array"] == pytest.approx([8.0, 0.0])
    assert points["error_x"]["arrayminus"] == pytest.approx([6.0, 0.0])
    assert points["y"][0] == "decode-short C4 decode, all"
    assert points["y"][1].startswith("4 streams &lt;/script")
    assert dots["x"] == [5.0, 15.0]
    table = report_of(comparison()).sections[0].tables[0]
    assert table.rows[0][1:] == ("100", "110", "+10.0", "+4.0 to +18.0", "0.012", "better")
    assert table.rows[2][1:] == ("100", "110", "-", "-", "-", "-")


def test_colours_are_left_to_the_page(page: Page) -> None:
    names = set()

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for entry in value.values():
                walk(entry)
        elif isinstance(value, list):
            for entry in value:
                walk(entry)
        elif isinstance(value, str) and value.startswith("var("):
            names.add(value[4:-1])

    walk(json.loads(page.scripts[0]))
    style = html("x", [], "0")
    style = style[style.index("<style>") : style.index("</style>")]
    assert len(names) > 6
    for name in names:
        assert style.count(f"{name}:") >= 2, name  # light and dark


def test_text_for_plots_holds_no_tag(page: Page) -> None:
    assert "<" not in page.scripts[0]
    assert json.loads(page.scripts[0])["d1-tokens-f1"]["layout"]["annotations"][0]["hovertext"].startswith(
        "&lt;/"
    )


def test_script_json_round_trips() -> None:
    value = {EVIL: [EVIL, 1.5, None]}
    text = str(script_json(value))
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


def test_markdown_has_the_same_sections_and_even_tables() -> None:
    text = markdown("Title", [report_of(run())])
    heads = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert heads == [escaped(section.title) for section in report_of(run()).sections]
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) > 40
    tables: list[list[int]] = []
    for before, line in zip(["", *text.splitlines()], text.splitlines(), strict=False):
        if line.startswith("|"):
            cells = line.replace("\\|", "").count("|")
            tables = tables if before.startswith("|") else [*tables, []]
            tables[-1].append(cells)
    assert all(len(set(cells)) == 1 for cells in tables)


def test_markdown_of_documents_is_no_markup() -> None:
    text = markdown("Title", [report_of(run())])
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    kinds = {child.type for token in tokens for child in (token, *(token.children or ()))}
    assert not kinds & {"html_block", "html_inline", "link_open", "image", "code_inline"}
    assert {"fence", "table_open", "heading_open"} <= kinds


def test_a_big_run_makes_no_big_file() -> None:
    shuffled = random.Random(1)
    document = run(2000, 150)
    for each in document.value["requests"]:
        each["sent"] += shuffled.random()
    made = report_of(document)
    figures = json.loads(
        Page(html("Big", [made], "0")).scripts[0],
    )
    assert len(json.dumps(figures)) < 1_000_000
    told = " ".join(line for section in made.sections for line in section.lines)
    for words in ("of 2,000 are drawn", "42 of 2,000 requests"):
        assert words in told


def app(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    made = typer.Typer()
    made.command()(report)
    return CliRunner().invoke(made, list(arguments))


def test_the_command_writes_both_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, document in (("run.json", run()), ("compare.json", comparison())):
        (tmp_path / name).write_text(json.dumps(document.value))
    files = [str(tmp_path / name) for name in ("run.json", "compare.json")]
    out, text = tmp_path / "out.html", tmp_path / "out.md"
    done = app(monkeypatch, *files, "--html", str(out), "--markdown", str(text))
    assert done.exit_code == 0, done.output
    assert "<h1>2 results</h1>" in out.read_text(encoding="utf-8")
    assert "## B is worse than A." in text.read_text(encoding="utf-8")
    assert str(tmp_path) not in out.read_text(encoding="utf-8")
    printed = app(monkeypatch, files[1])
    assert printed.stdout.startswith("# B is worse than A.")


def test_the_command_refuses_what_it_cannot_read_or_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.json").write_text('{"schema": "other/1"}')
    found = app(monkeypatch, str(tmp_path / "x.json"))
    assert isinstance(found.exception, BenchError)
    assert "schema 'other/1'; expected penny-bench/compare/1 or" in str(found.exception)
    found = app(monkeypatch, str(tmp_path / "x.json"), "--html", str(tmp_path / "none" / "x.html"))
    assert "correct --html" in str(found.exception)
