"""The plan of a launch on this machine, made before the server starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penny_server.plan import (
    GPUS,
    Machine,
    Plan,
    choose_source,
    cpu,
    make_plan,
    of_size,
    settings_of,
    with_block,
)
from penny_server.profiles import Launch, Profile
from penny_server.serving.gpu import Gpu

USABLE = 0.993
"""Of the memory that the driver lists, CUDA gives about this much (94.97 of 95.59 GiB on an RTX PRO 6000)."""
SAME_SIZE = 0.02


def plan_of(profile: Profile, launch: Launch, gpus: Sequence[Gpu]) -> Plan:
    """What the planner expects of this launch here. Raises PennyError for settings that it cannot plan."""
    source, _ = choose_source(profile, launch, None, None)
    settings = settings_of(launch)
    settings = with_block(source, replace(settings, gpus=max(settings.tp, len(gpus))))
    return make_plan(source, settings, machine_of(launch, gpus))


def machine_of(launch: Launch, gpus: Sequence[Gpu]) -> Machine:
    """The memory that a server would find here."""
    if launch.device == "cpu" or not gpus:
        import psutil

        return cpu(psutil.virtual_memory().available)
    gpu = gpus[0]
    for known in GPUS.values():
        if known.name in gpu.name and abs(known.listed - gpu.memory_bytes) < SAME_SIZE * known.listed:
            return known
    found = of_size(int(gpu.memory_bytes * USABLE), gpu.compute_capability)
    return replace(found, name=gpu.name, listed=gpu.memory_bytes, source="the driver")
