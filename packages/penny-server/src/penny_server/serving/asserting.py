"""A profile's assertions against a server that is ready."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from penny_server.errors import ExitCode, PennyError
from penny_server.profiles import Launch
from penny_server.profiles.asserted import changed, matching, subject
from penny_server.serving.reality import GIB, Measured, size

SEAMS_FILE = "seams.jsonl"
COUNTS = (
    ("pool_tokens", "tokens", "the KV pool holds {found:,} tokens, and at least {wanted:,} are asserted"),
    ("requests", "requests", "{found} requests can run at once, and at least {wanted} are asserted"),
    ("recurrent_slots", "slots", "there are {found} recurrent slots, and at least {wanted} are asserted"),
)


@dataclass(frozen=True)
class Verdict:
    """``failed`` are sentences that stop the server; ``skipped`` say which assertions a person's settings lifted."""

    failed: tuple[str, ...]
    skipped: tuple[str, ...]


def check_asserts(
    launch: Launch, found: Measured, backends: Mapping[str, str], proven: frozenset[str]
) -> Verdict:
    """Judges every assertion of ``launch``; ``proven`` are the seams that the processes proved active."""
    failed: list[str] = []
    skipped: list[str] = []
    for about, key, problem in _problems(launch, found, backends, proven):
        setting = changed(about, launch.origins)
        if setting:
            skipped.append(f"The assertion {key} of the profile is not held, because {setting} was changed.")
        else:
            failed.append(f"[assert] {key}: {problem}.")
    return Verdict(tuple(failed), tuple(dict.fromkeys(skipped)))


def refuse(profile: str, verdict: Verdict) -> None:
    """Raises PennyError (server) with every assertion that failed."""
    if verdict.failed:
        raise PennyError(
            f"The server is not what the profile {profile} promises, so it was stopped. "
            f"{' '.join(verdict.failed)}",
            ExitCode.SERVER,
            "If what it has is enough, say so in a profile of yours that extends this one.",
        )


def proven_seams(run_dir: Path) -> frozenset[str]:
    """The seams that the processes of a run wrote down as active."""
    file = run_dir / SEAMS_FILE
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return frozenset(name for line in lines for name in json.loads(line)["seams"])


def _problems(
    launch: Launch, found: Measured, backends: Mapping[str, str], proven: frozenset[str]
) -> Iterator[tuple[str, str, str]]:
    """What decides it, the assertion, and what is wrong."""
    asserts = launch.asserts
    for key, name, text in COUNTS:
        wanted, had = getattr(asserts, key), getattr(found, name)
        if wanted is not None and had is None:
            yield key, key, "the server did not say what it has; the profile needs the feature progress"
        elif wanted is not None and had < wanted:
            yield key, key, text.format(found=had, wanted=wanted)
    if asserts.free_gib is not None and (found.free is None or found.free < asserts.free_gib * GIB):
        had = "the server did not say how much" if found.free is None else size(found.free)
        yield (
            "free_gib",
            "free_gib",
            f"{had} of GPU memory is free, and {asserts.free_gib:g} GiB are asserted",
        )
    for operation, pattern in asserts.backends.items():
        named = matching(operation, backends)
        if not named:
            yield subject(operation), f"backends.{operation}", "the server has no such operation"
        for name, backend in named.items():
            if not fnmatchcase(backend, pattern):
                problem = f"{name} got {backend}, and {pattern} is asserted"
                yield subject(name), f"backends.{operation}", problem
    for seam in asserts.seams:
        if seam not in proven:
            yield "", f"seams.{seam}", "no process has proven this seam active"
