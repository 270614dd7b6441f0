"""Reads a document of `penny-bench run`. Its rows are the headline numbers that it lists in `metrics`."""

from __future__ import annotations

import json
import math
from typing import Any

from penny_bench.compare.value import ALL, Metric, Value

FREE = ("seed", "cached_limit")
"""Parts of a plan that may differ: each restart has prompts of its own, and a limit only labels."""


def read_run(read: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `Document`."""
    workload = read["workload"]
    streams = {phase["name"]: phase["streams"] for phase in read["phases"]}
    values = {}
    for row in read["metrics"]:
        phase = ALL if row["phase"] is None else str(row["phase"])
        values[phase, str(row["key"])] = Value(
            _metric(row), _number(row["value"]), streams.get(phase), row["share"] and _number(row["share"])
        )
    alike = {
        "the model": str(read["server"]["model"]),
        "ignore_eos taken by the server": str(read["server"]["extensions"]),
    }
    counted = {bool(request["usage"].get("by_tokenizer")) for request in read.get("requests", ())}
    alike["tokens counted by"] = " and ".join("a tokenizer" if by else "the server" for by in sorted(counted))
    if workload:
        alike["the workload's digest"] = str(workload["digest"])
    if read["imported"]:
        alike["the tool that measured"] = str(read["imported"]["tool"])
    for key, value in (read["plan"] or {}).items():
        if key not in FREE:
            alike[f"{key} of the plan"] = json.dumps(value, sort_keys=True)
    gpus = (read["machine"] or {}).get("gpus") or ()
    return {
        "workload": str(workload["name"]) if workload else "run",
        "alike": alike,
        "told": {
            "the client": ", ".join(f"{name} {version}" for name, version in read["versions"].items()),
            "the GPUs": ", ".join(gpu["name"] for gpu in gpus) or "none",
        },
        "values": values,
        "prompts": _prompts(read["phases"]),
        "faults": _faults(read),
        "notes": _notes(read),
    }


def _metric(row: dict[str, Any]) -> Metric:
    better = row["better"]
    if better not in ("higher", "lower", None):
        raise ValueError(f"better is {better!r}, not higher, lower or null")
    return Metric(str(row["key"]), str(row["label"]), str(row["unit"]), better)


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"the number {value} is not finite")
    return number


def _prompts(phases: list[dict[str, Any]]) -> dict[str, float]:
    """Mean length of the prompts as the server counted it."""
    return {
        phase["name"]: phase["summary"]["input_tokens"] / phase["summary"]["succeeded"]
        for phase in phases
        if phase["summary"]["input_tokens"] and phase["summary"]["succeeded"]
    }


def _faults(read: dict[str, Any]) -> list[tuple[None, str]]:
    summary, cache = read["summary"], read["cache"]
    faults: list[tuple[None, str]] = []
    if read["status"] == "partial":
        faults.append((None, "it is partial: the run was interrupted."))
    if failed := sum(summary["errors"].values()):
        faults.append((None, f"{failed} of {summary['requests']} requests failed."))
    if cache["verdict"] == "contaminated":
        faults.append(
            (
                None,
                f"a prefix cache took part: up to {cache['most']} cached tokens in a prompt (contaminated).",
            )
        )
    return faults


def _notes(read: dict[str, Any]) -> list[tuple[None, str]]:
    notes: list[tuple[None, str]] = []
    if read["earlier"]:
        notes.append((None, "it was interrupted and resumed, maybe on a server that was started anew."))
    if read["checks"] and read["checks"]["open"]:
        notes.append((None, f"{read['checks']['open']} checks wait for a person, so its score is not final."))
    return notes
