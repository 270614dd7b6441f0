"""A plan against what the server really got, each difference with the term that makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penny_server.plan import Plan

NOTABLE = 0.02
"""Differences above this are explained."""
NEGLIGIBLE = 0.001
MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class Row:
    """One quantity: ``planned`` and ``found`` in bytes, or a number of something where ``unit`` names it.

    ``why`` explains a difference above 2 %, and is empty otherwise.
    """

    name: str
    planned: int
    found: int
    unit: str = ""
    why: str = ""

    @property
    def difference(self) -> float:
        """Found over planned, less one; 1 where nothing was planned and something found."""
        if self.planned == 0:
            return float(self.found != 0)
        return self.found / self.planned - 1

    def text(self, value: int) -> str:
        """A value with its unit."""
        return f"{value:,} {self.unit}" if self.unit else size(value)

    def document(self) -> dict[str, Any]:
        """The row as plain data."""
        return {
            "name": self.name,
            "planned": self.planned,
            "found": self.found,
            "unit": self.unit or "bytes",
            "difference": round(self.difference, 5),
            "why": self.why,
        }


@dataclass(frozen=True)
class Measured:
    """What the events of a start say, in bytes; None for what they do not.

    Attributes:
        weights, draft: the parameters of the model, and of a draft.
        tokens, requests, slots: capacities; ``kv`` and ``states`` are the memory of the target's pools.
        before: free before loading; ``taken`` is gone after it, of both models.
        graphs: what the captured graphs took; ``free`` is left when all is done.
    """

    weights: int | None = None
    draft: int | None = None
    tokens: int | None = None
    requests: int | None = None
    slots: int | None = None
    kv: int | None = None
    states: int | None = None
    before: int | None = None
    taken: int | None = None
    graphs: int | None = None
    free: int | None = None


def measured(found: Mapping[str, Mapping[str, Any]]) -> Measured:
    """Reads `Progress.measured`."""
    weights, pools = found.get("weights", {}), found.get("pools", {})
    draft, graphs = found.get("draft, weights", {}), found.get("graphs", {})
    draft_graphs = found.get("draft, graphs", {})
    taken = [part["taken"] for part in (weights, draft) if "taken" in part]
    captured = [part["graphs"] for part in (graphs, draft_graphs) if "graphs" in part]
    free = [part["free"] for part in (graphs, draft_graphs) if "free" in part]
    return Measured(
        weights=weights.get("bytes"),
        draft=draft.get("bytes"),
        tokens=pools.get("tokens"),
        requests=pools.get("requests"),
        slots=pools.get("slots"),
        kv=pools.get("kv"),
        states=pools.get("states"),
        before=weights.get("free_before"),
        taken=sum(taken) if taken else None,
        graphs=sum(captured) if captured else None,
        free=min(free) if free else None,
    )


def compare(plan: Plan, found: Measured) -> tuple[Row, ...]:
    """One row for each quantity that was both planned and found."""
    need, pool = plan.need, plan.pool
    by_name = {line.name: line.bytes for line in plan.lines}
    kv = by_name.get("target KV", 0) + by_name.get("target index keys", 0)
    states = sum(
        line.bytes for line in plan.lines if line.group == "states" and not line.name.startswith("PLE")
    )
    loaded_draft = sum(part.bytes for part in (*need.draft, *need.dropped))
    rows = (
        ("weights", sum(part.bytes for part in need.weights), found.weights, "", _weights),
        ("draft weights", loaded_draft, found.draft, "", _weights),
        ("KV pool", pool.tokens, found.tokens, "tokens", _pool),
        ("KV pool's memory", kv, found.kv, "", _kv),
        ("recurrent slots", pool.slots, found.slots, "slots", _pool),
        ("recurrent states", states, found.states, "", _states),
        ("concurrent requests", pool.requests, found.requests, "requests", _requests),
        ("free before loading", pool.before, found.before, "", _before),
        ("gone after loading", need.loaded, found.taken, "", _loaded),
        ("CUDA graphs", by_name.get("CUDA graphs", 0), found.graphs, "", _graphs),
        ("free when ready", plan.free, found.free, "", _free),
    )
    made = []
    for name, planned, had, unit, explain in rows:
        if had is None or (planned == 0 and had == 0):
            continue
        row = Row(name, planned, had, unit)
        why = explain(plan, found, row) if abs(row.difference) > NOTABLE else ""
        made.append(Row(name, planned, had, unit, why))
    return tuple(made)


def summary(rows: tuple[Row, ...]) -> tuple[str, ...]:
    """What to remember of the comparison: one sentence on the pool, one for each difference that was explained."""
    pool = next((row for row in rows if row.name == "KV pool"), None)
    told = []
    if pool is not None:
        same = abs(pool.difference) < NEGLIGIBLE
        how = "as planned" if same else f"{pool.difference:+.1%} against the {pool.planned:,} planned"
        told.append(f"The KV pool of {pool.found:,} tokens is {how}.")
    return (*told, *(sentence(row) for row in rows if row.why))


def sentence(row: Row) -> str:
    """An explained row in words."""
    return (
        f"{row.name[0].upper()}{row.name[1:]}: {row.text(row.found)}, planned {row.text(row.planned)} "
        f"({row.difference:+.1%}). {row.why}"
    )


def size(value: float) -> str:
    """Bytes as the planner prints them."""
    return f"{value / GIB:,.2f} GiB" if abs(value) >= GIB / 10 else f"{value / MIB:,.1f} MiB"


def _weights(plan: Plan, found: Measured, row: Row) -> str:
    return (
        "The model's parameters are not those that the shapes of config.json give: another format of some modules, "
        "or tensors that are padded or kept twice."
    )


def _pool(plan: Plan, found: Measured, row: Row) -> str:
    """Takes the budget apart: what was free, what loading took, and the states, in the tokens that they are worth."""
    pool = plan.pool
    terms: list[tuple[str, int]] = []
    if found.before is not None:
        terms.append(("free before loading", int((found.before - pool.before) * plan.fraction)))
    if found.taken is not None:
        terms.append(("gone after loading", plan.need.loaded - found.taken))
    if found.slots is not None and row.name == "KV pool":
        terms.append(("recurrent slots", (pool.slots - found.slots) * plan.need.slot.recurrent))
    terms = [(name, change) for name, change in terms if abs(change) >= MIB]
    terms.sort(key=lambda term: -abs(term[1]))
    if not terms:
        if plan.settings.device == "cpu":
            return "On a CPU the pool follows the host's free memory, which other programs changed meanwhile."
        return "No measured term explains it: SGLang's own formula differs from the planner's."
    words = [
        f"{name} left {size(abs(change))} {'more' if change > 0 else 'less'} to the pools"
        for name, change in terms
    ]
    return f"{'; '.join(words)}."


def _kv(plan: Plan, found: Measured, row: Row) -> str:
    tokens = found.tokens or 0
    held = tokens + plan.settings.page
    each = row.found / held
    planned = plan.need.token.total
    if abs(each / planned - 1) <= NOTABLE:
        return "It follows the number of tokens."
    return f"A token takes {each:,.0f} bytes, and {planned:,} were planned from the heads and the KV dtype."


def _states(plan: Plan, found: Measured, row: Row) -> str:
    slots = found.slots if found.slots is not None else plan.pool.slots
    if slots != plan.pool.slots:
        return f"It follows the number of slots: {slots}, and {plan.pool.slots} were planned."
    if found.requests is not None and found.requests != plan.pool.requests:
        return (
            f"Verification keeps states for {found.requests} requests, and {plan.pool.requests} were planned."
        )
    return "A slot, or what verification keeps, has another size than config.json and the state dtypes give."


def _requests(plan: Plan, found: Measured, row: Row) -> str:
    return "It follows the tokens and slots of the pools, of which a request needs at least its share."


def _before(plan: Plan, found: Measured, row: Row) -> str:
    change = row.found - row.planned
    if change < 0:
        return f"Other programs, or the CUDA context, hold {size(-change)} more than planned."
    return f"{size(change)} more were free than the memory of {plan.machine.name} less a CUDA context."


def _loaded(plan: Plan, found: Measured, row: Row) -> str:
    parameters = (found.weights or 0) + (found.draft or 0)
    beside = row.found - parameters
    return (
        f"{size(beside)} beside the parameters are in use after loading, and {size(plan.need.unexplained.bytes)} were "
        f"planned ({plan.need.unexplained.kind})."
    )


def _graphs(plan: Plan, found: Measured, row: Row) -> str:
    return "The plan takes SGLang's rule of thumb for graphs, a fixed size for each captured size."


def _free(plan: Plan, found: Measured, row: Row) -> str:
    """Which other row moved most."""
    lines = {line.name: line.bytes for line in plan.lines}
    pools = lines.get("target KV", 0) + lines.get("target index keys", 0)
    terms = [
        ("free before loading", found.before, plan.pool.before, 1),
        ("gone after loading", found.taken, plan.need.loaded, -1),
        ("CUDA graphs", found.graphs, lines.get("CUDA graphs", 0), -1),
        ("the KV pool", found.kv, pools, -1),
    ]
    changes = [(name, sign * (had - planned)) for name, had, planned, sign in terms if had is not None]
    rest = (row.found - row.planned) - sum(change for _, change in changes)
    changes.append(("workspaces, and what the allocator keeps,", rest))
    name, change = max(changes, key=lambda term: abs(term[1]))
    return f"Most of it: {name} left {size(abs(change))} {'more' if change > 0 else 'less'} than planned."
