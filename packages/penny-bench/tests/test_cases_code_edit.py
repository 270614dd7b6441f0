"""Code edits: the cases against facts worked out by hand, the judge, and runs against the mock."""

from __future__ import annotations

import ast
import asyncio
import tomllib
from collections.abc import Callable
from difflib import unified_diff
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from penny_bench.cases.code_edit import EditCase, edit_cases, read_edited
from penny_bench.client import Reply, Server
from penny_bench.errors import BenchError
from penny_bench.mock import Refusal, Script, running
from penny_bench.mock.reply import reply_script
from penny_bench.workload import WorkloadResult, measure_workload, read_workload

CASES = {case.name: case for case in edit_cases()}


def fenced(text: str, language: str = "python") -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def definition(case: EditCase, name: str) -> ast.FunctionDef | ast.ClassDef:
    found = [
        node
        for node in ast.walk(ast.parse(case.after))
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
    ]
    assert len(found) == 1
    return found[0]


# ---- the cases


def test_every_change_is_found_once() -> None:
    folder = files("penny_bench.cases.code_edit")
    for data in tomllib.loads(folder.joinpath("cases.toml").read_text(encoding="utf-8"))["cases"]:
        text = folder.joinpath("files", f"{data['file']}.txt").read_text(encoding="utf-8")
        for change in data["changes"]:
            assert text.count(change["old"]) == 1, (data["name"], change["old"])
            text = text.replace(change["old"], change["new"])
        assert text == CASES[data["name"]].after


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_files_are_whole_and_small(case: EditCase) -> None:
    read: Callable[[str], Any] = ast.parse if case.language == "python" else tomllib.loads
    read(case.before)
    read(case.after)
    assert 60 < len(case.before.splitlines()) <= 200
    assert max(map(len, case.after.splitlines())) <= 110
    assert f"```{case.language}\n{case.before}```" in case.request
    assert case.edit in case.request


def test_the_expected_files_are_what_the_words_ask_for() -> None:
    rename = CASES["rename"].after
    assert "Gamma" not in rename
    assert "cv" not in rename.replace("gammavariate", "")
    assert [
        field.target.id
        for field in definition(CASES["rename"], "Bursty").body
        if isinstance(field, ast.AnnAssign)
    ] == [  # type: ignore[union-attr]
        "rate",
        "spread",
    ]
    ratio = definition(CASES["field"], "Ratio")
    assert isinstance(ratio.body[-1], ast.AnnAssign)
    assert ast.unparse(ratio.body[-1]) == "restarts: int"
    calls = [
        ast.unparse(node.args[-1])
        for node in ast.walk(ast.parse(CASES["field"].after))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("_ratio", "Ratio")
    ]
    assert sorted(calls) == ["2 * d.size", "restarts", "x.size + y.size"]
    header = definition(CASES["parameter"], "read_header")
    assert isinstance(header, ast.FunctionDef)
    assert ast.unparse(header.args) == "shard: Path, limit: int=MAX_HEADER_BYTES"
    assert "MAX_HEADER_BYTES" not in ast.unparse(ast.Module(header.body, []))
    assert (ast.get_docstring(header) or "").split("\n")[1:5] == [
        "",
        "Args:",
        "    shard: the file.",
        "    limit: longest header that is read, bytes.",
    ]
    timeline = definition(CASES["counter"], "Timeline")
    names = [node.name for node in timeline.body if isinstance(node, ast.FunctionDef)]
    assert names[names.index("events") + 1] == "done"
    event = definition(CASES["counter"], "event")
    assert ast.unparse(event.body[1]) == "self._events += 1"
    parse = definition(CASES["extract"], "parse_overrides")
    assert "ssl_" not in ast.unparse(parse)
    assert "_refuse_tls(name, key)" in ast.unparse(parse)
    assert "ssl_" in ast.unparse(definition(CASES["extract"], "_refuse_tls"))
    before, after = tomllib.loads(CASES["settings"].before), tomllib.loads(CASES["settings"].after)
    before["collector"].update(port=7500, workers=6)
    before["storage"]["keep_days"] = 730
    before["alerts"]["rules"][2]["above"] = 15.5
    before["alerts"]["rules"].append(
        {"name": "low pressure", "field": "pressure", "below": 965.0, "for_minutes": 45}
    )
    before["stations"][2]["active"] = True
    before["stations"][3]["height"] = 1181
    assert after == before


# ---- the judge


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_right_file_passes_and_others_do_not(case: EditCase) -> None:
    right = read_edited(case, f"Here it is:\n\n{fenced(case.after, case.language)}\n")
    assert (right.parses, right.same_code, right.same_text) == (True, True, True)
    assert (right.similarity, right.wrong_lines) == (1.0, 0)
    assert [check.passed for check in right.checks(case)] == [True, True, True]
    assert read_edited(case, case.after).same_text  # without a block

    same = read_edited(case, fenced(case.before, case.language))  # the edit was not made
    assert (same.parses, same.same_code, same.same_text) == (True, False, False)
    patch = list(unified_diff(case.before.splitlines(), case.after.splitlines(), n=0, lineterm=""))[2:]
    assert same.wrong_lines == sum(not line.startswith("@@") for line in patch)
    assert [check.points for check in same.checks(case)] == [0.0, 0.0, 0.0]

    cut = read_edited(case, fenced(case.after[: len(case.after) // 2] + "\nx = (", case.language))
    assert (cut.parses, cut.same_code) == (False, False)
    assert cut.similarity < 0.8


def test_another_layout_is_the_same_program() -> None:
    case = CASES["field"]
    other = case.after.replace(
        "float(df), confidence, math.sqrt(pooled)", "float(df), confidence,\n\n  math.sqrt(pooled)"
    )
    assert other != case.after
    edited = read_edited(case, fenced(other))
    assert (edited.same_code, edited.same_text) == (True, False)
    assert [check.passed for check in edited.checks(case)] == [True, True, False]


def test_one_wrong_character_is_another_program() -> None:
    case = CASES["counter"]
    edited = read_edited(case, fenced(case.after.replace("self._events += 1", "self._events += 2")))
    assert (edited.parses, edited.same_code, edited.wrong_lines) == (True, False, 2)


def test_nothing_of_a_reply_is_run(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    read_edited(CASES["rename"], fenced(f"open({str(trace)!r}, 'w').close()\n"))
    assert not trace.exists()


@pytest.mark.parametrize("text", ["", "```python\n", "I cannot do that.", "(" * 5000, "x = '\0'"])
def test_odd_replies_are_wrong_and_raise_nothing(text: str) -> None:
    assert not read_edited(CASES["rename"], text).same_code


# ---- the kind


def measured(answer: Any, **settings: Any) -> WorkloadResult:
    workload = read_workload("code-edit", {"runs": 2, **settings})

    async def run(url: str) -> WorkloadResult:
        return await measure_workload(await Server.connect(url), workload, 7)

    with running(answer) as mock:
        return asyncio.run(run(mock.url))


def asked(body: dict[str, Any]) -> EditCase | None:
    text = body["messages"][0]["content"]
    return next((case for case in CASES.values() if case.request in text), None)


def perfect(number: int, body: dict[str, Any]) -> Script:
    case = asked(body)
    return reply_script(Reply(fenced(case.after, case.language) if case else "ok"), size=400)


def test_a_perfect_server() -> None:
    result = measured(perfect)
    values = {metric.key: (metric.value, metric.unit) for metric in result.metrics}
    assert values["code"] == (12.0, "of 12")
    assert values["text"] == (12.0, "of 12")
    assert values["similarity"] == (100.0, "%")
    assert values["wrong_lines"] == (0.0, "lines")
    assert all(check.passed for check in result.checks)
    assert sum(check.points for check in result.checks) == sum(check.of for check in result.checks) == 12
    assert [(phase.name, len(phase.requests)) for phase in result.phases] == [("warm-up", 1), ("edit", 12)]


def test_a_lazy_server_and_one_that_fails() -> None:
    def answer(number: int, body: dict[str, Any]) -> Script:
        case = asked(body)
        if case and case.name == "rename":
            return Refusal(500, "out of luck")
        return reply_script(Reply(fenced(case.before, case.language) if case else "ok"), size=400)

    result = measured(answer, cases=["rename", "settings"], runs=1, warmups=0)
    values = {metric.key: metric.value for metric in result.metrics}
    assert values["code"] == 0
    assert values["wrong_lines"] > 5
    assert {check.case for check in result.checks if not check.passed} == {"rename", "settings"}


def test_wrong_names_are_told() -> None:
    with pytest.raises(BenchError, match="there is no case 'x'; the cases are rename,"):
        read_workload("code-edit", {"cases": ["x"]})
