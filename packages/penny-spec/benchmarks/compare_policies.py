"""Compare the width policies on recorded traces with every fixed width and with the oracle.

    python packages/penny-spec/benchmarks/compare_policies.py --out packages/penny-spec/benchmarks/results/adaptive.json
    python packages/penny-spec/benchmarks/compare_policies.py --traces FOLDER

Each trace is replayed whole and, where it mixes temperatures by request, at each alone. Traces of every position are
replayed exactly on the same text, and once more as a server would have recorded them at the widest width: a record for
each of its own steps. The bar: a policy reaches 95 % of the best fixed width on code, prose and mixed text, and is
above it on mixed text.
"""

import argparse
import json
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import penny_spec
from penny_spec.adaptive import Comparison, Confidence, Ema, StepCost, Trace, compare, read_trace, served
from penny_spec.adaptive.report import document

HERE = Path(__file__).parent
TRACES = ("code", "prose", "mixed")
BAR = 0.95


def parts(name: str, trace: Trace) -> Iterator[tuple[str, Trace]]:
    """Yield a trace and, if it is not `mixed`, its requests of each temperature."""
    yield name, trace
    requests = trace.origin["requests"]
    for temperature in sorted({request["temperature"] for request in requests}):
        if name != "mixed":
            alone = trace.only(lambda number, heat=temperature: requests[number]["temperature"] == heat)  # type: ignore[misc]
            yield f"{name} at T {temperature}", alone


def add_row(table: Table, name: str, found: Comparison) -> None:
    """Add a comparison to a table."""
    table.add_row(
        name,
        f"{found.best_fixed.name} {found.best_fixed.rate:.1f}",
        *(f"{found.of_best_fixed(one):.1%} ({one.switches})" for one in found.policies),
        *(f"{found.of_oracle(one):.1%}" for one in found.policies),
    )


def main() -> None:
    """Print a table for each way of replay, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, default=HERE / "traces")
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--more", type=Path, nargs="*", default=[], help="more folders: only shares, on the same text"
    )
    arguments = parser.parse_args()
    cost = StepCost()
    policies = (Ema(), Confidence())
    results: dict[str, Any] = {}
    for way in ("same_text", "recorded_steps"):
        table = Table(title=f"{way}: of the best fixed width (switches), of the oracle")
        for heading in ("trace", "best fixed", "ema", "confid.", "ema", "confid."):
            table.add_column(heading, no_wrap=True)
        for name in TRACES:
            for part, trace in parts(name, read_trace(arguments.traces / f"{name}.jsonl")):
                found = compare(
                    served(trace, trace.records[0].width) if way == "recorded_steps" else trace,
                    policies,
                    cost,
                )
                add_row(table, part, found)
                results.setdefault(way, {})[part] = document(found)
        Console().print(table)
    reached = {
        policy.name: all(
            _choice(results["same_text"][part], policy.name) >= BAR for part in results["same_text"]
        )
        and _choice(results["same_text"]["mixed"], policy.name) > 1.0
        for policy in policies
    }
    print("bar reached:", reached)
    more = [
        {"folder": folder.name, "trace": name}
        | {one.name: found.of_best_fixed(one) for one in found.policies}
        | {"best_fixed": found.best_fixed.name}
        for folder in arguments.more
        for name in TRACES
        for found in [compare(read_trace(folder / f"{name}.jsonl"), policies, cost)]
    ]
    for name in TRACES if more else ():
        for policy in policies:
            shares = [one[policy.name] for one in more if one["trace"] == name]
            print(
                f"{len(shares)} more folders, {name}, {policy.name}: {min(shares):.1%} to {max(shares):.1%}"
            )
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        whole = {
            "what": "width policies on recorded traces of tiny-27b",
            "command": "python packages/penny-spec/benchmarks/compare_policies.py --out FILE [--more FOLDER ...]",
            "versions": {"penny_spec": penny_spec.__version__, "python": platform.python_version()},
            "step_ms": asdict(cost),
            "policies": {policy.name: asdict(policy) for policy in policies},
            "bar_reached": reached,
            "results": results,
            "more": more,
        }
        arguments.out.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if any(reached.values()) else 1)


def _choice(found: dict[str, Any], name: str) -> float:
    return next(float(one["of_best_fixed"]) for one in found["choices"] if one["name"] == name)


if __name__ == "__main__":
    main()
