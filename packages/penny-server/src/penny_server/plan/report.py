"""A plan as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from penny_server.plan.plan import Plan


def report(plan: Plan, profile: str, config: str) -> dict[str, Any]:
    """Everything that a plan knows, in bytes and tokens; ``config`` says which config.json it was made from."""
    need, pool, host = plan.need, plan.pool, plan.host
    return {
        "profile": profile,
        "config": config,
        "machine": asdict(plan.machine),
        "settings": asdict(plan.settings),
        "mem_fraction_static": plan.fraction,
        "pool": asdict(pool) | {"context": need.context, "holds_a_whole_context": plan.fits},
        "bytes_per_token": {
            "target": asdict(need.token),
            "draft": asdict(need.draft_token),
            "charged": need.cell,
        },
        "bytes_per_slot": asdict(need.slot) | {"recurrent": need.slot.recurrent},
        "bytes_per_request": {
            "verification": need.verify,
            "verification_charged": need.verify_charged,
            "replay_ring": need.ring,
        },
        "loaded_before_sizing": need.loaded,
        "dropped_after_sizing": sum(part.bytes for part in need.dropped),
        "unexplained": asdict(need.unexplained),
        "gpu": [asdict(line) for line in plan.lines],
        "gpu_free": plan.free,
        "activations_rule_of_thumb": plan.rule,
        "host": asdict(host) | {"ram": host.ram},
        "levers": [asdict(lever) for lever in plan.levers],
        "notes": list(plan.notes),
    }
