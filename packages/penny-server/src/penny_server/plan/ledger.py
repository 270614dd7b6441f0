"""Where the GPU's memory goes, line by line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penny_server.plan.constants import FLASHINFER_WORKSPACE, MIB, TRTLLM_WORKSPACE
from penny_server.plan.demand import Demand
from penny_server.plan.fraction import graphs_mib
from penny_server.plan.machines import Machine
from penny_server.plan.settings import PlanSettings
from penny_server.plan.sizing import Pool

Group = Literal["context", "weights", "draft", "kv", "states", "run"]
TOKEN_INDEX_BYTES = 4
RING_POSITION_BYTES = 24


@dataclass(frozen=True)
class Line:
    """One use of GPU memory; ``how`` says how its size is known: exact, estimated or fitted."""

    group: Group
    name: str
    bytes: int
    how: Literal["exact", "estimate", "fitted"] = "exact"


def gpu_lines(machine: Machine, settings: PlanSettings, need: Demand, pool: Pool) -> tuple[Line, ...]:
    """Everything that lies on the GPU once the server is ready; what is left over is free for activations."""
    lines = [Line("context", "CUDA context", machine.context, "estimate")] if machine.context else []
    lines += [Line("weights", f"{part.name} ({part.format})", part.bytes) for part in need.weights]
    if need.unexplained.bytes:
        how: Literal["fitted", "estimate"] = "fitted" if need.unexplained.kind == "fitted" else "estimate"
        lines.append(Line("weights", need.unexplained.name, need.unexplained.bytes, how))
    lines += [Line("draft", f"{part.name} ({part.format})", part.bytes) for part in need.draft]
    if need.head_rows:
        lines.append(Line("draft", "head rows of the token map", need.head_rows))
    held = pool.tokens + settings.page
    for name, size in (
        ("target KV", need.token.kv),
        ("target index keys", need.token.index),
        ("draft KV", need.draft_token.kv),
        ("draft index keys", need.draft_token.index),
    ):
        if size:
            lines.append(Line("kv", name, held * size))
    lines += _states(settings, need, pool)
    lines += _running(machine, settings, need, pool)
    return tuple(line for line in lines if line.bytes > 0)


def _states(settings: PlanSettings, need: Demand, pool: Pool) -> list[Line]:
    slots, requests = pool.slots + 1, pool.requests + 1
    return [
        Line("states", "recurrent state", slots * need.slot.temporal),
        Line("states", "convolution state", slots * need.slot.conv),
        Line("states", "PLE short convolution and n-gram context", slots * need.slot.siblings),
        Line("states", f"verification of {settings.draft_tokens} tokens", requests * need.verify),
        Line("states", "ReplaySSM ring", requests * need.ring),
    ]


def _running(machine: Machine, settings: PlanSettings, need: Demand, pool: Pool) -> list[Line]:
    table = (pool.requests + 1) * need.context * TOKEN_INDEX_BYTES
    lines = [Line("run", "request table", table)]
    if settings.device == "cpu":
        return lines
    graphs = int(graphs_mib(machine, settings) * MIB)
    workspaces = sum(
        TRTLLM_WORKSPACE if name.startswith("trtllm") else FLASHINFER_WORKSPACE
        for name in settings.attention
        if name.startswith(("trtllm", "flashinfer"))
    )
    if settings.spec != "none" and any(name.startswith("flashinfer") for name in settings.attention):
        workspaces += FLASHINFER_WORKSPACE  # the draft has a backend of its own
    return [
        *lines,
        Line("run", "CUDA graphs", graphs, "estimate"),
        Line("run", "attention workspaces", workspaces, "estimate"),
    ]
