"""`python -m penny_spec.adaptive replay TRACE`: policies, every fixed width and the oracle on a recorded trace."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from penny_spec.adaptive.base import Policy
from penny_spec.adaptive.confidence import Confidence
from penny_spec.adaptive.ema import Ema
from penny_spec.adaptive.replay import compare
from penny_spec.adaptive.report import document, table
from penny_spec.adaptive.slots import Slots
from penny_spec.adaptive.step import StepCost
from penny_spec.adaptive.trace import read_trace

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


class Choice(StrEnum):
    """The policies by name."""

    ema = "ema"
    confidence = "confidence"


@app.callback()
def _group() -> None:
    """Width policies on recorded traces."""


@app.command()
def replay(
    trace: Annotated[Path, typer.Argument(help="A trace recorded at its widest width throughout.")],
    policy: Annotated[list[Choice] | None, typer.Option(help="A policy; both if not given.")] = None,
    widths: Annotated[str, typer.Option(help="Candidate widths for every batch size.")] = "3,7",
    step_a: Annotated[float, typer.Option(help="Milliseconds of a step without drafts.")] = 9.74,
    step_b: Annotated[float, typer.Option(help="Milliseconds more for each draft token.")] = 0.70,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead of a table.")] = False,
) -> None:
    """Compare width policies with every fixed width and with the oracle."""
    try:
        cost = StepCost(step_a, step_b)
        slots = Slots(((1, _widths(widths)),))
        launch = slots.widths()[-1]
        made: dict[Choice, Policy[Any]] = {
            Choice.ema: Ema(slots, launch=launch),
            Choice.confidence: Confidence(slots, launch=launch, cost=cost),
        }
        chosen = [made[one] for one in dict.fromkeys(policy or Choice)]
        found = compare(read_trace(trace), chosen, cost)
    except (OSError, ValueError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    if as_json:
        typer.echo(
            json.dumps({"trace": trace.name, "step_ms": [step_a, step_b], **document(found)}, indent=2)
        )
    else:
        Console().print(table(found, f"{trace.name}, step {step_a:g} + {step_b:g} x width ms"))


def _widths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise ValueError(f"The widths {text!r} are no list; write them as 3,7.") from error


if __name__ == "__main__":
    app()
