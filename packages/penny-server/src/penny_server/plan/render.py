"""A plan on a terminal: what fits, a picture of the memory, where it goes, and what would make more fit."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from penny_server.plan.constants import GIB, MIB
from penny_server.plan.ledger import Group, Line
from penny_server.plan.plan import Plan

GROUPS: dict[Group, tuple[str, str, str]] = {
    "context": ("context", "▪", "white"),
    "weights": ("weights", "█", "blue"),
    "draft": ("draft", "▓", "cyan"),
    "kv": ("KV pool", "▒", "green"),
    "states": ("recurrent state", "▚", "magenta"),
    "run": ("graphs and workspaces", "░", "yellow"),
}
FREE = ("free, for activations", "·", "dim")
SHOWN_LEVERS = 8


def size(value: float) -> str:
    """Bytes as people read them: GiB, or MiB below a tenth of one."""
    return f"{value / GIB:,.2f} GiB" if abs(value) >= GIB / 10 else f"{value / MIB:,.1f} MiB"


def show(plan: Plan, title: str, console: Console, table: Table, lever_table: Table) -> None:
    """Prints ``plan``; the tables come empty, with three columns each."""
    console.print(Text(title, style="bold"))
    console.print(_answer(plan))
    console.print()
    for row in _bar(plan, min(console.width, 100)):
        console.print(row)
    console.print()
    _fill(table, plan)
    console.print(table)
    console.print()
    for line in _elsewhere(plan):
        console.print(line)
    if plan.levers:
        console.print(Text("\nWhat would make more fit", style="bold"))
        for lever in plan.levers[:SHOWN_LEVERS]:
            lever_table.add_row(lever.change, f"+{lever.gains:,} tokens", lever.costs)
        console.print(lever_table)
    for note in plan.notes:
        console.print(Text(f"Note: {note}", style="yellow"))


def _answer(plan: Plan) -> Text:
    pool, need = plan.pool, plan.need
    text = Text.assemble(
        ("KV pool: ", ""),
        (f"{pool.tokens:,} tokens", "bold green" if plan.fits else "bold red"),
        f" at {need.cell:,} bytes each",
    )
    if pool.fits > pool.tokens:
        text.append(f", the most asked for ({pool.fits:,} would fit)")
    text.append(
        f"\n{pool.requests:,} requests at once, each up to {need.context:,} tokens; {pool.slots:,} recurrent slots of "
        f"{size(need.slot.recurrent)}, {pool.per_request} for each request; memory fraction {plan.fraction:.3f}"
    )
    return text


def _sums(plan: Plan) -> list[tuple[str, str, str, int]]:
    sums = [
        (*GROUPS[group], sum(line.bytes for line in plan.lines if line.group == group)) for group in GROUPS
    ]
    return [entry for entry in [*sums, (*FREE, max(plan.free, 0))] if entry[3] > 0]


def _bar(plan: Plan, width: int) -> list[Text]:
    sums = _sums(plan)
    total = sum(entry[3] for entry in sums)
    bar, legend, done = Text(), [Text()], 0
    for name, mark, style, value in sums:
        end = round((done + value) / total * width)
        cells = max(end - round(done / total * width), 1)
        done += value
        bar.append(mark * cells, style=style)
        entry = Text.assemble((f"{mark} ", style), f"{name} {size(value)}   ")
        if len(legend[-1]) + len(entry) > width:
            legend.append(Text())
        legend[-1].append_text(entry)
    return [bar, *legend]


def _fill(table: Table, plan: Plan) -> None:
    for group, (name, mark, style) in GROUPS.items():
        lines = [line for line in plan.lines if line.group == group]
        if not lines:
            continue
        table.add_row(
            f"[{style}]{mark}[/] [bold]{name}[/]", f"[bold]{size(sum(x.bytes for x in lines))}[/]", ""
        )
        if len(lines) > 1:
            for line in lines:
                table.add_row(f"  {line.name}", size(line.bytes), _how(line))
    table.add_row(
        f"{FREE[1]} [bold]free[/]", f"[bold]{size(plan.free)}[/]", f"of {size(plan.machine.usable)}"
    )


def _how(line: Line) -> str:
    return "" if line.how == "exact" else line.how


def _elsewhere(plan: Plan) -> list[str]:
    host, need = plan.host, plan.need
    found = []
    if host.tables:
        found.append(f"Host RAM, pinned: PLE table {size(host.tables)}")
    if host.tier:
        found.append(
            f"Host RAM, prefix cache (HiCache): {size(host.tier)}, about {host.tier_tokens:,} tokens and "
            f"{host.tier_slots:,} recurrent slots; SGLang leaves {size(host.reserve)} beside it"
        )
    disk = f"Disk: checkpoint {size(host.checkpoint)}"
    if host.table_file:
        disk += f", prepared PLE table {size(host.table_file)}"
    if plan.settings.store:
        disk += f"; the store takes {host.token_bytes:,} bytes a token and {size(host.slot_bytes)} a state"
    found.append(disk)
    if need.verify_charged:
        found.append(
            f"SGLang counts {size(need.verify_charged)} a request for verification and keeps {size(need.verify)}"
        )
    return found
