"""Environment variables that break a start or slow a server down."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from penny_server.doctor.base import Case, Check, Finding, fail, ok, warn

TRUE = ("1", "true", "yes", "on")


@dataclass(frozen=True)
class Hazard:
    """A variable, the values of it that hurt, for which launches, and how."""

    name: str
    hurts: Callable[[str], bool]
    when: Callable[[Case], bool]
    state: Literal["warn", "fail"]
    why: str


def _set(value: str) -> bool:
    return value.lower() in TRUE


def _always(case: Case) -> bool:
    return True


HAZARDS = (
    Hazard("CUDA_LAUNCH_BLOCKING", _set, lambda c: c.cuda, "warn", "every kernel is waited for"),
    Hazard(
        "SGLANG_USE_CPU_ENGINE", _set, lambda c: c.cuda, "fail", "SGLang takes its CPU operations on a GPU"
    ),
    Hazard(
        "SGLANG_ENABLE_OVERLAP_PLAN_STREAM", _set, lambda c: c.ranks > 1, "fail",
        "users with two GPUs had to take it away",
    ),
    Hazard(
        "PYTORCH_CUDA_ALLOC_CONF", lambda v: "expandable_segments:true" in v.lower(), lambda c: c.ranks > 1, "fail",
        "segments that grow cannot be shared between the processes of two GPUs",
    ),
    Hazard("PYTORCH_NO_CUDA_MEMORY_CACHING", _set, lambda c: c.cuda, "warn", "every allocation goes to the driver"),
    Hazard("TORCH_LOGS", bool, _always, "warn", "the compiler writes its work into the log"),
    Hazard(
        "NCCL_DEBUG", lambda v: v.upper() in ("INFO", "TRACE"), lambda c: c.ranks > 1, "warn", "NCCL logs all it does"
    ),
    Hazard("PYTHONOPTIMIZE", lambda v: v not in ("", "0"), _always, "fail", "Python drops the checks of arguments"),
    Hazard("PYTHONDEVMODE", _set, _always, "warn", "Python checks every allocation"),
)  # fmt: skip


def _variables(case: Case) -> Iterable[Finding]:
    environ = case.environ
    bad = False
    for hazard in HAZARDS:
        value = environ.get(hazard.name, "")
        if value and hazard.when(case) and hazard.hurts(value):
            bad = True
            say = fail if hazard.state == "fail" else warn
            yield say(f"{hazard.name} is {value!r}: {hazard.why}.", f"Take it away: unset {hazard.name}")
    if not bad:
        yield ok("No environment variable is in the way.")


CHECKS = (Check("environment.variables", "no variable that breaks or slows a server", _variables),)
