"""From the words on the command line to a case, with everything that cannot be resolved noted instead of raised."""

from __future__ import annotations

from dataclasses import replace

from penny_server import plan as planner
from penny_server.doctor.base import Case
from penny_server.doctor.facts import Facts
from penny_server.errors import PennyError
from penny_server.plan import Machine, Plan, Source, make_plan, settings_of, with_block
from penny_server.plan.choose import choose_source
from penny_server.profiles import Launch, Profile


def prepare(facts: Facts, profile: Profile, launch: Launch, model_given: bool) -> Case:
    """The case of starting ``launch`` on the machine of ``facts``."""
    case = Case(facts, profile, launch, model_given=model_given)
    if launch.device == "cuda" and not facts.gpus:
        return case
    try:
        source, _ = choose_source(profile, launch, None, None)
        return replace(
            case,
            plan=_plan(source, launch, facts, now=False),
            plan_now=_plan(source, launch, facts, now=True),
        )
    except PennyError as error:
        return replace(case, refusals={"plan.settings": error})


def _plan(source: Source, launch: Launch, facts: Facts, now: bool) -> Plan:
    settings = settings_of(launch)
    # Too few GPUs are another check's finding.
    settings = replace(settings, gpus=max(settings.tp, len(facts.gpus)))
    return make_plan(source, with_block(source, settings), _machine(launch, facts, now))


def _machine(launch: Launch, facts: Facts, now: bool) -> Machine:
    if launch.device == "cpu":
        host = facts.host
        room = host.memory if host.group_limit is None else min(host.memory, host.group_limit)
        return planner.cpu(free_memory(facts) if now else room)
    # The smallest of those that share the model decides.
    gpu = min(
        facts.gpus[: int(launch.settings.get("tp_size") or 1)], key=lambda g: g.free if now else g.total
    )
    whole = planner.of_driver(gpu.name, gpu.total, gpu.capability)
    return replace(whole, usable=max(whole.usable - (gpu.total - gpu.free), 1)) if now else whole


def free_memory(facts: Facts) -> int:
    """Host memory that may still be taken: of the machine, and of the control group."""
    host = facts.host
    return (
        host.available
        if host.group_limit is None
        else min(host.available, host.group_limit - host.group_used)
    )
