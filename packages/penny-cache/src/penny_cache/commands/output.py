"""What the commands print: tables and JSON on stdout, progress on a terminal's stderr."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from penny_cache.commands.units import shown

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
SHORT = 12
"""Digits of a key that tables show."""


def emit(value: object) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """A table without a frame; the columns in `right` hold numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", no_wrap=column in right)
    return made


def show(what: Table) -> None:
    """Print a table, as wide as the terminal, without blanks at the ends of lines."""
    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(what)
    for line in captured.get().splitlines():
        typer.echo(line.rstrip())


def text(value: object) -> str:
    """A value as text for a table."""
    return escape(str(value))


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        """Bytes a second since the start."""
        elapsed = task.finished_time or task.elapsed
        speed = task.fields["bytes"] / elapsed if elapsed else 0.0
        return Text(f"{shown(task.fields['bytes'])}  {shown(speed)}/s")


@contextmanager
def progress(what: str, total: int, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr if that is a terminal; yields what is told of steps and bytes that are done.

    Args:
        what: before the bar.
        total: steps.
        quiet: show nothing.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda done, size: None
        return
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(24),
        TextColumn("{task.percentage:>3.0f}%"),
        _Speed(),
    )
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(what, total=total or None, bytes=0)

        def tell(done: int, size: int) -> None:
            bar.update(task, completed=done, bytes=size)

        yield tell


@contextmanager
def silent(name: str = "penny_cache.store", above: int = logging.ERROR) -> Iterator[None]:
    """No log lines of `name` below a level, such as those about single bundles: the command says what they say."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(above)
    try:
        yield
    finally:
        logger.setLevel(level)
