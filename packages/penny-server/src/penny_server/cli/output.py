"""How tables are printed."""

from __future__ import annotations

import os
import sys

from rich.console import Console
from rich.table import Table

PIPE_WIDTH = 160


def table(*headings: str) -> Table:
    """A table without lines; the last column wraps, the others do not."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings[:-1]:
        made.add_column(heading, no_wrap=True)
    made.add_column(headings[-1], overflow="fold")
    return made


def console() -> Console:
    """The standard output: as wide as the terminal, and `PIPE_WIDTH` columns in a pipe or file."""
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, width=PIPE_WIDTH if piped else None)
