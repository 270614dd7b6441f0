"""What is said before and while a comparison runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from penny_bench.abba.plan import AbbaPlan, Side
from penny_bench.abba.record import hide
from penny_bench.compare import Comparison
from penny_bench.compare.words import percent
from penny_bench.stats import abba, minimum_effect, spread_cv

SPREADS = (0.01, 0.03, 0.1)
"""Spreads for which the detectable effect is told where none is stated."""


def before(plan: AbbaPlan, folder: Path) -> list[str]:
    """What will be run, and what it will be able to tell."""
    return [
        f"{2 * plan.restarts} starts in this order: {' '.join(abba(plan.restarts))}",
        *_server(plan, "a"),
        *_server(plan, "b"),
        "On each start:",
        *(
            f"  {shlex.join(['penny-bench', *measure.command])} --url ... --json {measure.name}.json"
            for measure in plan.measures
        ),
        f"Results: {folder}/a/01, {folder}/b/01, ...",
        *detectable(plan),
    ]


def detectable(plan: AbbaPlan) -> list[str]:
    """The minimum detectable effect, stated before anything is measured."""
    test = "pairs" if plan.settings.paired else "two samples"
    rows = f", corrected for {plan.rows} rows" if plan.rows > 1 else ", for a single row"
    how = f"{test}, alpha {plan.settings.alpha:g}{rows}, power 80 %"
    if plan.cv is None:
        found = ", ".join(f"{percent(_least(plan, cv))} at {percent(cv)}" for cv in SPREADS)
        return [
            f"The spread between restarts is not stated (cv), so it is taken from the restarts as they come. "
            f"{plan.restarts} a side detect: {found} ({how})."
        ]
    lines = [
        f"With a spread of {percent(plan.cv)} between restarts, {plan.restarts} a side detect "
        f"{percent(_least(plan, plan.cv))} ({how})."
    ]
    if plan.effect is not None and _least(plan, plan.cv) > plan.effect:
        lines.append(
            f"That is more than the {percent(plan.effect)} that shall be found: too few; see penny-bench plan."
        )
    return lines


def so_far(plan: AbbaPlan, comparison: Comparison) -> str | None:
    """The spread between the restarts so far, and what the planned number of them will detect.

    Nothing is said of the difference: to stop when it pleases makes false alarms more frequent.
    """
    paired = plan.settings.paired
    tested = sum(row.p is not None for row in comparison.rows)
    known = [
        (
            minimum_effect(
                plan.restarts, spread_cv(row.ratio.spread), plan.settings.alpha / tested, paired=paired
            ),
            row.place,
        )
        for row in comparison.rows
        if row.p is not None and row.ratio and row.ratio.spread
    ]
    if not known:
        return None
    (least, where), (most, there) = min(known), max(known)
    return (
        f"By the spread so far, {plan.restarts} restarts a side will detect from {percent(least)} ({where}) to "
        f"{percent(most)} ({there})."
    )


def _least(plan: AbbaPlan, cv: float) -> float:
    return minimum_effect(plan.restarts, cv, plan.settings.alpha / plan.rows, paired=plan.settings.paired)


def _server(plan: AbbaPlan, side: Side) -> Sequence[str]:
    server = plan.server(side)
    env = "".join(f"{name}={shlex.quote(hide(name, value))} " for name, value in server.env)
    where = f" in {server.folder}" if server.folder else ""
    return [
        f"{side.upper()}, {server.name}, at {server.url}{where}:",
        f"  {env}{shlex.join(server.command)}",
    ]
