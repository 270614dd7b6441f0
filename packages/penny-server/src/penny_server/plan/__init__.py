"""What fits on a GPU, from a ``config.json`` alone: the pool that SGLang would give, and where the memory goes."""

from penny_server.plan.choose import choose_source
from penny_server.plan.machines import DEFAULT_GPU, GPUS, Machine, cpu, gpu, memory, of_driver, of_size
from penny_server.plan.plan import Plan, Source, make_plan, read_source, with_block
from penny_server.plan.settings import PlanSettings, read_settings, settings_of

__all__ = [
    "DEFAULT_GPU",
    "GPUS",
    "Machine",
    "Plan",
    "PlanSettings",
    "Source",
    "choose_source",
    "cpu",
    "gpu",
    "make_plan",
    "memory",
    "of_driver",
    "of_size",
    "read_settings",
    "read_source",
    "settings_of",
    "with_block",
]
