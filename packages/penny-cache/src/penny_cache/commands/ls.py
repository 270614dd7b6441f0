"""`penny-cache ls`: the bundles of a store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.tree import Tree

from penny_cache.commands.output import SHORT, AsJson, show, table, text
from penny_cache.commands.units import shown
from penny_cache.commands.where import StorePath, reading
from penny_cache.inspect import shape
from penny_cache.store import Survey
from penny_cache.store.image import REMOVED
from penny_cache.store.records import BLOCK, NO_KEY

LINES = 50
"""Lines of text without `--limit`."""


def ls(
    path: StorePath,
    limit: Annotated[
        int | None,
        typer.Option(
            min=0, help=f"Lines to show, 0 for all. Text stops after {LINES}, JSON does not.", metavar="N"
        ),
    ] = None,
    tree: Annotated[bool, typer.Option("--tree", help="Show chains, and where they branch.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the bundles of a store.

    They come in the order on disk; with --json, one line for each.
    """
    with reading(path) as (store, _):
        survey = store.survey()
    most = limit if limit is not None else 0 if as_json else LINES
    found = list(_runs(survey, most) if tree else _bundles(survey, most))
    if as_json:
        for one in found:
            typer.echo(json.dumps(one, ensure_ascii=False))
    elif not len(survey.rows):
        typer.echo("There are no bundles.")
    elif tree:
        _draw(found)
    else:
        _tabulate(found)
    if most and not as_json and len(found) == most:
        typer.echo(f"The store has {len(survey.rows):,} bundles; --limit 0 shows all.")


def _bundles(survey: Survey, most: int) -> Iterator[dict[str, object]]:
    order = np.argsort(survey.rows[["segment", "offset"]], kind="stable")
    for row in survey.rows[order[:most] if most else order]:
        yield {
            "key": row["key"].tobytes().hex(),
            "parent": _parent(row),
            "parts": {name: size for name, size in survey.layouts[int(row["layout"])] if name != REMOVED},
            "segment": int(row["segment"]),
            "block": int(row["offset"]),
            "blocks": int(row["blocks"]),
        }


def _runs(survey: Survey, most: int) -> Iterator[dict[str, object]]:
    """Stretches of chains between branch points, each after the one that it hangs on."""
    form = shape(survey)
    number: dict[int, int] = {}
    for i, path in enumerate(form.paths()):
        if most and i == most:
            return
        first, last = survey.rows[path[0]], survey.rows[path[-1]]
        number[int(path[-1])] = i
        above = int(form.parents[path[0]])
        yield {
            "run": i,
            "on": number.get(above),
            "missing_parent": _parent(first) if above < 0 else None,
            "bundles": len(path),
            "bytes": int(survey.rows["blocks"][path].sum(dtype=np.int64)) * BLOCK,
            "first": first["key"].tobytes().hex(),
            "last": last["key"].tobytes().hex(),
        }


def _parent(row: np.void) -> str | None:
    parent: bytes = row["parent"].tobytes()
    return None if parent == NO_KEY else parent.hex()


def _tabulate(found: list[dict[str, object]]) -> None:
    lines = table("key", "parent", "segment", "block", "parts", right=("segment", "block"))
    for one in found:
        parts = one["parts"]
        assert isinstance(parts, dict)
        sizes = ", ".join(f"{name} {shown(size)}" for name, size in parts.items())
        parent = str(one["parent"] or "-")[:SHORT]
        lines.add_row(str(one["key"])[:SHORT], parent, str(one["segment"]), str(one["block"]), text(sizes))
    show(lines)


def _draw(found: list[dict[str, object]]) -> None:
    roots: list[Tree] = []
    trees: dict[object, Tree] = {}
    for one in found:
        first, last, bundles = str(one["first"])[:SHORT], str(one["last"])[:SHORT], one["bundles"]
        ends = first if bundles == 1 else f"{first} … {last}"
        label = f"{ends}  {bundles:,} bundle{'' if bundles == 1 else 's'}  {shown(float(str(one['bytes'])))}"
        if one["missing_parent"]:
            label += f"  parent {str(one['missing_parent'])[:SHORT]} missing"
        above = trees.get(one["on"])
        tree = trees[one["run"]] = Tree(label) if above is None else above.add(label)
        if above is None:
            roots.append(tree)
    console = Console(highlight=False)
    for tree in roots:
        console.print(tree)
