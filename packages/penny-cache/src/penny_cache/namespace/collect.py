"""Old namespaces: which may go, as a pure function, and their removal."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from penny_cache.namespace import lease
from penny_cache.namespace.directory import REMOVED
from penny_cache.namespace.usage import Usage, opened, opened_root, usage_of

LEFT_OVER_S = 3600.0
"""Seconds after which an unfinished namespace is no longer being made."""


@dataclass(frozen=True)
class Policy:
    """Which namespaces may go. Without `unused_for` and `budget`, all but `keep`.

    Attributes:
        keep: so many of those used last stay, whatever else is said. With 1 or more, a clock that jumps ahead and makes
            everything look old does not remove what was used last.
        unused_for: seconds after which a namespace goes.
        budget: bytes that all directories of the root may take; those go first that were not used for longest.
    """

    keep: int = 1
    unused_for: float | None = None
    budget: int | None = None


@dataclass(frozen=True)
class Choice:
    """A directory that goes, and why, as the end of a sentence."""

    usage: Usage
    why: str


@dataclass
class Collected:
    """What came of it.

    Attributes:
        gone: directories that are no longer there.
        freed: bytes on the drive.
        kept: directory or file, and why it is still there.
    """

    gone: list[str] = field(default_factory=list)
    freed: int = 0
    kept: list[tuple[str, str]] = field(default_factory=list)


def choose(found: Sequence[Usage], policy: Policy, now: float) -> list[Choice]:
    """What goes, those unused for longest first. Nothing that is in use or holds something foreign.

    Args:
        found: all directories of the root.
        policy: what may go.
        now: seconds since 1970. What was used later than that, by a clock that was wrong, counts as used now.
    """

    def age(one: Usage) -> float:
        return max(0.0, now - one.used)

    free = [one for one in found if not one.user and not one.foreign]
    chosen = [Choice(one, "its removal was not finished") for one in free if one.kind == "removed"]
    chosen += [
        Choice(one, "it was never finished" if one.kind == "unfinished" else "its manifest is damaged")
        for one in free
        if one.kind in ("unfinished", "damaged") and age(one) > LEFT_OVER_S
    ]
    newest = sorted(
        (one for one in found if one.kind == "namespace"), key=lambda one: (age(one), one.directory)
    )
    candidates = [one for one in reversed(newest[policy.keep :]) if one in free]
    if policy.unused_for is None and policy.budget is None:
        last = "the one used last" if policy.keep == 1 else f"among the {policy.keep} used last"
        why = f"it is not {last}" if policy.keep else "none were to be kept"
        return chosen + [Choice(one, why) for one in candidates]
    total = sum(one.size for one in found) - sum(choice.usage.size for choice in chosen)
    for one in candidates:
        if policy.unused_for is not None and age(one) > policy.unused_for:
            why = f"it was not used for {age(one) / 86400:.1f} days"
        elif policy.budget is not None and total > policy.budget:
            why = f"all together take {total:,} bytes"
        else:
            continue
        chosen.append(Choice(one, why))
        total -= one.size
    return chosen


def collect(root: str | os.PathLike[str], choices: Sequence[Choice]) -> Collected:
    """Remove what was chosen, each first under a name that nobody opens, so that a later run may finish it.

    A directory that came into use meanwhile, or is no longer what it was, stays. A file that cannot be removed is
    named, and the next ones are tried.

    Raises:
        NamespaceError: as `usage`.
    """
    done = Collected()
    with opened_root(root) as top:
        for choice in choices:
            name = choice.usage.directory
            try:
                _remove(top, choice.usage, done)
            except FileNotFoundError:
                done.kept.append((name, "it is gone already"))
            except OSError as error:
                done.kept.append((name, f"{error.strerror} ({error.filename})"))
        os.fsync(top)
    return done


def _remove(top: int, chosen: Usage, done: Collected) -> None:
    name = chosen.directory
    with opened(top, name) as directory, lease.alone(directory) as used:
        # With the locks held nobody begins to use it; what came before them is seen now.
        again = usage_of(top, name, look_for_users=False)
        if used or not again or again[0].foreign or again[0].kind != chosen.kind:
            done.kept.append((name, used or "it changed meanwhile"))
            return
        gone = name
        if not name.startswith(REMOVED):
            gone = f"{REMOVED}{name.lstrip('.')[:80]}-{secrets.token_hex(4)}"
            os.rename(name, gone, src_dir_fd=top, dst_dir_fd=top)
            os.fsync(top)
        left = 0
        for entry in sorted(e.name for e in os.scandir(directory)):
            size = os.stat(entry, dir_fd=directory, follow_symlinks=False).st_blocks * 512
            try:
                os.unlink(entry, dir_fd=directory)
                done.freed += size
            except OSError as error:
                left += 1
                done.kept.append((f"{gone}/{entry}", str(error.strerror)))
        if not left:
            os.rmdir(gone, dir_fd=top)
            done.gone.append(name)
