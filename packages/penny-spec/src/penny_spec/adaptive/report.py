"""A comparison as a table for people and as a document for programs."""

from dataclasses import asdict
from typing import Any

from rich.table import Table

from penny_spec.adaptive.replay import Comparison, Outcome


def table(comparison: Comparison, title: str) -> Table:
    """Return the table of a comparison: policies, fixed widths (the best with a star) and the oracle."""
    found = Table(title=title)
    found.add_column("choice", no_wrap=True)
    for heading in ("tokens/s", "of best fixed", "of oracle", "steps", "switches"):
        found.add_column(heading, justify="right")
    found.add_column("steps by width")
    for outcome in _rows(comparison):
        best = " *" if outcome is comparison.best_fixed else ""
        found.add_row(
            outcome.name + best,
            f"{outcome.rate:.1f}",
            f"{comparison.of_best_fixed(outcome):.1%}",
            f"{comparison.of_oracle(outcome):.1%}",
            str(outcome.steps),
            str(outcome.switches),
            " ".join(f"{width}:{count}" for width, count in outcome.widths.items()),
        )
    return found


def document(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison for JSON: rates in tokens a second, shares from 0 to 1."""
    return {
        "best_fixed": comparison.best_fixed.name,
        "choices": [
            asdict(outcome)
            | {
                "tokens_per_s": outcome.rate,
                "of_best_fixed": comparison.of_best_fixed(outcome),
                "of_oracle": comparison.of_oracle(outcome),
            }
            for outcome in _rows(comparison)
        ],
    }


def _rows(comparison: Comparison) -> tuple[Outcome, ...]:
    return (*comparison.policies, *comparison.fixed, comparison.oracle)
