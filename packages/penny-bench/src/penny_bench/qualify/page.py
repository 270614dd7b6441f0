"""The page of a qualification, in Markdown, and its document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from penny_bench.qualify.judge import Judged
from penny_bench.qualify.plan import QualificationPlan

SCHEMA = "penny-bench/qualify/1"

Outcome = tuple[str, dict[str, Any], list[Judged]]
"""A run: its name, its document, its marks."""


def passed(outcomes: Sequence[Outcome]) -> bool:
    """Whether every mark of every run was reached."""
    return all(mark.passed for _, _, marks in outcomes for mark in marks)


def qualification_document(
    plan: QualificationPlan, outcomes: Sequence[Outcome], command: str, version: str
) -> dict[str, Any]:
    """The JSON document: the plan, and what each run reached. The runs' own documents lie beside it."""
    return {
        "schema": SCHEMA,
        "command": command,
        "penny_bench": version,
        "plan": plan.model_dump(mode="json", by_alias=True, exclude={"url"}),
        "passed": passed(outcomes),
        "runs": [
            {
                "name": name,
                "file": f"{name}.json",
                "started": document["started"],
                "seconds": document["seconds"],
                "status": document["status"],
                "workload": document["workload"],
                "metrics": document["metrics"],
                "marks": [asdict(mark) for mark in marks],
            }
            for name, document, marks in outcomes
        ],
    }


def page(plan: QualificationPlan, outcomes: Sequence[Outcome]) -> str:
    """The page, to publish as it is."""
    reached = sum(mark.passed for _, _, marks in outcomes for mark in marks)
    total = sum(len(marks) for _, _, marks in outcomes)
    verdict = "Qualified" if passed(outcomes) else "Not qualified"
    lines = [f"# {plan.title}", "", f"**{verdict}: {reached} of {total} marks reached.**", ""]
    if plan.text:
        lines += [plan.text.strip(), ""]
    lines += ["| Run | Number | Mark | Reached | |", "|---|---|---|---|---|"]
    for name, _, marks in outcomes:
        lines += [f"| {name} | {_marks_cells(mark)} |" for mark in marks]
    for name, document, _ in outcomes:
        lines += ["", *_run(name, document)]
    if outcomes:
        lines += ["", *_environment(outcomes[0][1])]
    return "\n".join(lines) + "\n"


def _marks_cells(mark: Judged) -> str:
    reached = "not there" if mark.value is None else f"{mark.value:.4g} {mark.unit}"
    word = "reached" if mark.passed else f"**missed**{': ' + mark.detail if mark.detail else ''}"
    return " | ".join(_cell(text) for text in (mark.what, mark.limit, reached, word))


def _run(name: str, document: dict[str, Any]) -> list[str]:
    work, summary = document["workload"], document["summary"]
    lines = [f"## {name}", "", f"{work['title']} (version {work['version']}, `{work['digest'][:19]}`)."]
    if work["changed"]:
        changed = ", ".join(f"{key} = {value}" for key, value in work["changed"].items())
        lines += ["", f"Settings other than in the workload: {changed}."]
    lines += [
        "",
        "| Phase | | Median | Least | Most | Unit | n | Share of floor |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for metric in document["metrics"]:
        values = metric["values"]
        share = "" if metric["share"] is None else f"{100 * metric['share']:.0f} % of {metric['floor']:g}"
        cells = [metric["phase"] or "all", metric["label"]]
        cells += [f"{value:.4g}" for value in (metric["value"], min(values), max(values))]
        lines.append(
            "| " + " | ".join(_cell(c) for c in (*cells, metric["unit"], str(metric["n"]), share)) + " |"
        )
    said = f"{summary['succeeded']} of {summary['requests']} requests succeeded"
    if checks := document["checks"]:
        said += f"; {checks['passed']} of {checks['total']} checks passed"
        said += "" if checks["of"] is None else f", {checks['score']:g} of {checks['of']:g} points"
    lines += ["", f"{said}; {document['seconds']:.0f} s."]
    lines += [f"- {_cell(note)}" for note in document["notes"]]
    return lines


def _environment(document: dict[str, Any]) -> list[str]:
    info = document["server"]["info"].get("server_info", {})
    machine = document["machine"] or {}
    rows = [
        ("model", document["server"]["model"]),
        ("server", info.get("version")),
        ("client", f"penny-bench {document['versions']['penny_bench']}"),
        ("started", document["started"]),
        ("client's machine", machine.get("cpu")),
        *(("GPU", f"{gpu['name']}, driver {gpu['driver']}") for gpu in machine.get("gpus", ())),
    ]
    lines = ["## Environment", "", "| | |", "|---|---|"]
    return lines + [f"| {key} | {_cell(str(value))} |" for key, value in rows if value]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
