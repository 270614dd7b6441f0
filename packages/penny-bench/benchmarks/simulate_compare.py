"""Whether ``penny-bench compare`` keeps its promises, on servers whose every property is known.

    OMP_NUM_THREADS=1 python simulate_compare.py --comparisons 20000 --out result.json

For 4, 8 and 12 restarts a side, two samples and pairs, one row and four, on a machine that is steady (``none``), has a
trend of 10 %, walks at random by 2 % a start, or (``--worlds modes``) makes one start in five 10 % slower: false alarms
(5 % is promised), power at the stated minimum detectable effect (80 %), and coverage of the 95 % interval beside that
of a percentile bootstrap over the same restarts. Every comparison goes through ``compare_restarts``. The share of
comparisons with a false alarm is over all rows, after Holm's correction.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from rich.console import Console
from rich.table import Table

import penny_bench
from penny_bench.compare.simulate import Promises, World, simulate

RESTARTS = (4, 8, 12)
DRIFTS = {"none": {}, "trend": {"trend": 0.1}, "walk": {"walk": 0.02}, "modes": {"slow": 0.2}}
ROWS = (1, 4)
SCRIPT = f"packages/penny-bench/benchmarks/{Path(__file__).name}"
SEED = 3
TABLE = ("false_alarms", "power", "coverage", "bootstrap")
MORE = ("row_alarms", "permutation_alarms", "called_worse")


def main() -> None:
    """Simulate every cell, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--comparisons", type=int, default=2000)
    parser.add_argument("--worlds", default="none,trend,walk", help=f"of {', '.join(DRIFTS)}")
    parser.add_argument("--jobs", type=int, default=1, help="processes; the numbers do not depend on it")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    begin = time.perf_counter()
    worlds = {
        f"{'pairs' if paired else 'samples'}_{drift}_{rows}_rows_{restarts}_restarts": World(
            restarts=restarts, paired=paired, rows=rows, **DRIFTS[drift]
        )
        for drift in arguments.worlds.split(",")
        for rows in ROWS
        for paired in (False, True)
        for restarts in RESTARTS
    }
    with ProcessPoolExecutor(arguments.jobs) as pool:
        seeds = [[SEED, number] for number in range(len(worlds))]
        found = pool.map(simulate, worlds.values(), [arguments.comparisons] * len(worlds), seeds)
        cells = {name: (worlds[name], promises) for name, promises in zip(worlds, shown(found), strict=True)}
    print_table(cells)
    if arguments.out:
        seconds = time.perf_counter() - begin
        text = json.dumps(document(cells, arguments, seconds), indent=1)
        arguments.out.write_text(text + "\n")


def shown(found: Iterable[Promises]) -> Iterator[Promises]:
    """The same, with a line on stderr for each."""
    for number, promises in enumerate(found, 1):
        print(f"{number} cells", file=sys.stderr)
        yield promises


def document(
    cells: dict[str, tuple[World, Promises]], arguments: argparse.Namespace, seconds: float
) -> dict[str, Any]:
    """The result file. `table` has the promises of each cell, `more` the rest; all are shares."""
    comparisons = arguments.comparisons
    other = "" if arguments.worlds == "none,trend,walk" else f" --worlds {arguments.worlds}"
    errors = {share: math.sqrt(share * (1 - share) / comparisons) for share in (0.05, 0.8)}
    return {
        "command": f"OMP_NUM_THREADS=1 python {SCRIPT} --comparisons {comparisons}{other} --out FILE",
        "machine": {"cores": os.cpu_count(), "system": platform.system()},
        "versions": {
            "penny_bench": penny_bench.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
        "seed": SEED,
        "comparisons": comparisons,
        "seconds": round(seconds, 1),
        "bars": {"false_alarms": [0.04, 0.06], "power": 0.8},
        "monte_carlo_error": {"at_5_percent": errors[0.05], "at_80_percent": errors[0.8]},
        "worlds": {name: asdict(world) for name, (world, _) in cells.items()},
        "table": {
            name: {"stated_effect": world.stated, **{key: getattr(promises, key).share for key in TABLE}}
            for name, (world, promises) in cells.items()
        },
        "more": {
            name: {key: getattr(promises, key).share for key in MORE} for name, (_, promises) in cells.items()
        },
    }


def print_table(cells: dict[str, tuple[World, Promises]]) -> None:
    """All cells in percent, each share with its Monte-Carlo standard error."""
    names = (*TABLE, *MORE)
    table = Table("test, drift, rows, restarts", "stated", *(name.replace("_", " ") for name in names))
    for cell, (world, promises) in cells.items():
        shares = [getattr(promises, name) for name in names]
        table.add_row(
            cell,
            f"{100 * world.stated:.2f}",
            *(f"{100 * share.share:.2f} ±{100 * share.error:.2f}" for share in shares),
        )
    Console(width=170).print(table)


if __name__ == "__main__":
    main()
