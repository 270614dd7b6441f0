"""What a seam is: one declared hook into stock SGLang, checked before and proven after it is applied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

SGLANG_VERSION = "0.5.23"
"""The one SGLang version whose sources the seams were written against."""

Kind = Literal["before", "after", "around", "replace", "set"]
Role = Literal["main", "scheduler", "detokenizer"]
State = Literal["fits", "changed", "missing", "active"]


class SeamError(RuntimeError):
    """A seam does not fit the installed SGLang, or did not take in this process; the server must not start."""


@dataclass(frozen=True)
class Seam:
    """One hook into SGLang.

    ``hook`` is handed to SGLang's own HookRegistry for ``before``, ``after``, ``around`` and ``replace``
    (their call forms are documented there). For ``set`` it takes no argument and puts a value in place itself:
    module constants and torch attributes have no function to wrap.
    ``digest`` is of the source of ``target`` that the hook was written against (`source.digest_of`).
    ``probe`` runs after the seam was applied, in the same process, and returns whether the effect is there.
    """

    name: str
    feature: str
    target: str
    digest: str
    summary: str
    kind: Kind
    hook: Callable[..., Any]
    probe: Callable[[], bool]
    roles: tuple[Role, ...] = ("main", "scheduler")


@dataclass(frozen=True)
class SeamStatus:
    """One seam as ``penny seams`` lists it. ``found`` is empty when the target does not exist."""

    name: str
    feature: str
    target: str
    kind: Kind
    summary: str
    expected: str
    found: str
    state: State
    processes: tuple[str, ...] = ()
