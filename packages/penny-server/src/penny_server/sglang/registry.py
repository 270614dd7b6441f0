"""All seams of all features, and the checks that need no SGLang import."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import pkgutil
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from penny_server.sglang import seams as seams_package
from penny_server.sglang.seam import SGLANG_VERSION, Seam, SeamError, SeamStatus, State
from penny_server.sglang.source import SourceNotFoundError, digest_of

ACTIVE_FILE = "seams.jsonl"
"""File in the run directory to which each server process appends the seams that it has proven active."""


@lru_cache(maxsize=1)
def all_seams() -> tuple[Seam, ...]:
    """Every seam of every file in ``seams/``, in file and declaration order."""
    files = sorted(m.name for m in pkgutil.iter_modules(seams_package.__path__))
    modules = [importlib.import_module(f"{seams_package.__name__}.{name}") for name in files]
    return tuple(seam for module in modules for seam in module.SEAMS)


def features() -> tuple[str, ...]:
    """The names of all features that have seams."""
    return tuple(dict.fromkeys(seam.feature for seam in all_seams()))


def seams_of(wanted: Iterable[str]) -> tuple[Seam, ...]:
    """The seams of the features named. Raises SeamError for a feature that does not exist."""
    names = list(wanted)
    unknown = [n for n in names if n not in features()]
    if unknown:
        raise SeamError(f"Unknown feature {unknown[0]!r}; the features are: {', '.join(features())}.")
    return tuple(seam for seam in all_seams() if seam.feature in names)


def check_version() -> None:
    """Raises SeamError unless the installed SGLang is the pinned version."""
    try:
        found = importlib.metadata.version("sglang")
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    if found != SGLANG_VERSION:
        raise SeamError(
            f"penny-server is built for sglang {SGLANG_VERSION} and found {found}. "
            f"Install it with: pip install sglang=={SGLANG_VERSION}"
        )


def _found(seam: Seam) -> tuple[str, State]:
    try:
        found = digest_of(seam.target)
    except SourceNotFoundError:
        return "", "missing"
    return found, "fits" if found == seam.digest else "changed"


def check_seams(wanted: Iterable[str]) -> None:
    """Compares the source of every seam of the features with what it was written against.

    Raises SeamError that names the first seam that does not fit, both digests and the version that would fit.
    """
    check_version()
    for seam in seams_of(wanted):
        found, state = _found(seam)
        if state != "fits":
            what = "is gone from" if state == "missing" else "has other source in"
            raise SeamError(
                f"Seam {seam.name} does not fit: {seam.target} {what} the installed SGLang "
                f"(expected digest {seam.digest}, found {found or 'none'}). "
                f"It was written for an unmodified sglang {SGLANG_VERSION}: reinstall that version."
            )


def seams_report(run_dir: Path | None = None) -> list[SeamStatus]:
    """The state of every seam: ``fits``, ``changed`` or ``missing``, and ``active`` with the processes that
    proved it when ``run_dir`` is the run directory of a server."""
    proven: dict[str, list[str]] = {}
    if run_dir is not None and (run_dir / ACTIVE_FILE).is_file():
        for line in (run_dir / ACTIVE_FILE).read_text().splitlines():
            entry = json.loads(line)
            for name in entry["seams"]:
                proven.setdefault(name, []).append(entry["role"])
    report = []
    for seam in all_seams():
        found, state = _found(seam)
        if state == "fits" and set(proven.get(seam.name, ())) >= set(seam.roles):
            state = "active"
        report.append(
            SeamStatus(
                seam.name, seam.feature, seam.target, seam.kind, seam.summary, seam.digest, found, state,
                tuple(sorted(set(proven.get(seam.name, ())))),
            )
        )  # fmt: skip
    return report
