"""What to run before a comparison, and what it will be able to tell."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from penny_bench.errors import BenchError
from penny_bench.stats import abba, minimum_effect, restarts_needed

SCHEMA = "penny-bench/plan/1"


@dataclass(frozen=True)
class ComparisonPlan:
    """A comparison that is still to run.

    Attributes:
        cv: coefficient of variation between restarts of one side, a share.
        effect: relative difference that shall be found.
        alpha, power: of the test of all rows; with `rows` of them each is planned at `alpha / rows`, the
            first step of Holm's correction.
        paired: whether neighbours in the order are compared as pairs.
        rows: metrics times concurrencies.
        needed: fewest restarts a side that find the effect.
        restarts: restarts a side of this plan.
        detectable: the minimum detectable effect of so many.
        order: which side each start is of.
    """

    cv: float
    effect: float
    alpha: float
    power: float
    paired: bool
    rows: int
    needed: int
    restarts: int
    detectable: float
    order: tuple[Literal["A", "B"], ...]


def plan_comparison(
    cv: float,
    effect: float,
    *,
    restarts: int | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
    paired: bool = False,
    rows: int = 1,
) -> ComparisonPlan:
    """Plan a comparison in ABBA order, of `restarts` a side or of as many as the effect needs.

    Raises:
        BenchError: an argument out of its range, or over 1,000 restarts a side would be needed.
    """
    if rows < 1:
        raise BenchError(f"rows is {rows}; give at least 1.")
    try:
        needed = restarts_needed(cv, effect, alpha / rows, power, paired)
        n = needed if restarts is None else restarts
        detectable = minimum_effect(n, cv, alpha / rows, power, paired)
    except ValueError as error:
        raise BenchError(str(error)) from error
    if not math.isfinite(detectable):
        raise BenchError(
            f"{n} restarts a side with a spread of {cv} between them can tell nothing; give more with --restarts."
        )
    return ComparisonPlan(cv, effect, alpha, power, paired, rows, needed, n, detectable, tuple(abba(n)))


def plan_document(plan: ComparisonPlan, command: str, version: str) -> dict[str, Any]:
    """The JSON document of a plan."""
    return {"schema": SCHEMA, "command": command, "penny_bench": version, **asdict(plan)}


def plan_text(plan: ComparisonPlan) -> str:
    """The plan in words, with its order in lines of eight."""
    corrected = f", corrected for {plan.rows} rows" if plan.rows > 1 else ""
    test = "pairs" if plan.paired else "two samples"
    enough = "enough" if plan.restarts >= plan.needed else "too few"
    order = [" ".join(plan.order[i : i + 8]) for i in range(0, len(plan.order), 8)]
    return "\n".join(
        [
            f"To find {_percent(plan.effect)} with {_percent(plan.cv)} between restarts: {plan.needed} restarts a "
            f"side ({test}, alpha {plan.alpha:g}{corrected}, power {_percent(plan.power)}).",
            f"{plan.restarts} restarts a side are {enough}; they detect {_percent(plan.detectable)}.",
            "Start a fresh server for each letter, measure once, keep each result file:",
            *(f"  {line}" for line in order),
        ]
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
