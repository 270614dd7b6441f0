"""What a check gets to see, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from penny_server.doctor.facts import Facts
from penny_server.errors import PennyError
from penny_server.plan import Plan
from penny_server.profiles import Launch, Profile

GIB = 1 << 30
MIB = 1 << 20
State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was ``found``, and for ``warn`` and ``fail`` the ``fix``, both full sentences.

    ``warn`` is for what makes a server slow or poorer; ``fail`` for what ends or spoils its start.
    """

    state: State
    found: str
    fix: str = ""
    check: str = ""


@dataclass(frozen=True)
class Case:
    """The machine, and what would be started on it.

    Attributes:
        profile, launch: what would be started; None when only the machine is looked at, or settings contradict.
        plan: the plan on the whole memory of the GPU (or the free memory of the host); ``plan_now`` is on what is
            free at the moment.
        refusals: why ``launch`` or ``plan`` could not be made, by the check that shall say so.
        model_given: whether ``launch.checkpoint`` is a folder that somebody named.
    """

    facts: Facts
    profile: Profile | None = None
    launch: Launch | None = None
    plan: Plan | None = None
    plan_now: Plan | None = None
    refusals: dict[str, PennyError] = field(default_factory=dict)
    model_given: bool = False

    @property
    def cuda(self) -> bool:
        """Whether a GPU would be used."""
        return self.launch is not None and self.launch.device == "cuda"

    @property
    def ranks(self) -> int:
        """GPUs that would be used; 0 without."""
        return int(self.setting("tp_size") or 1) if self.cuda else 0

    def setting(self, name: str) -> Any:
        """The SGLang argument ``name``; None where it is not set."""
        return self.launch.settings.get(name) if self.launch else None

    def option(self, name: str) -> Any:
        """Our option ``name``; None where it is not set."""
        return self.launch.options.get(name) if self.launch else None

    @property
    def environ(self) -> dict[str, str]:
        """The environment that the server would have."""
        base = dict(self.facts.environ)
        return self.launch.child_env(base) if self.launch else base


@dataclass(frozen=True)
class Check:
    """One check: its name (``group.subject``), what it is about, and how it finds out.

    ``cuda`` checks run only for a launch on GPUs, ``launch`` checks only for some launch.
    """

    name: str
    about: str
    find: Callable[[Case], Iterable[Finding]]
    when: Literal["always", "launch", "cuda"] = "always"


def ok(found: str) -> Finding:
    """A good finding."""
    return Finding("ok", found)


def warn(found: str, fix: str) -> Finding:
    """A finding that costs speed or comfort."""
    return Finding("warn", found, fix)


def fail(found: str, fix: str) -> Finding:
    """A finding that ends or spoils the start."""
    return Finding("fail", found, fix)


def gib(size: float) -> str:
    """Bytes as text, such as ``3.2 GiB`` or ``64 MiB``."""
    return f"{size / GIB:,.1f} GiB" if size >= GIB or not size else f"{size / MIB:,.0f} MiB"
