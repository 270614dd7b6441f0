"""`python -m penny_bench.mock` is `penny-bench mock`."""

import sys

import typer

from penny_bench.errors import BenchError
from penny_bench.mock.command import mock

try:
    typer.run(mock)
except BenchError as error:
    print(f"penny-bench: {error}", file=sys.stderr)
    sys.exit(2)
