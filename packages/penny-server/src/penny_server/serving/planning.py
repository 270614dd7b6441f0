"""The plan of a launch on this machine, made before the server starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penny_server.plan import (
    Machine,
    Plan,
    choose_source,
    cpu,
    make_plan,
    of_driver,
    settings_of,
    with_block,
)
from penny_server.profiles import Launch, Profile
from penny_server.serving.gpu import Gpu


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
    return of_driver(gpus[0].name, gpus[0].memory_bytes, gpus[0].compute_capability)
