"""All checks, in the order of the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from penny_server.doctor.base import Case, Check, Finding, warn
from penny_server.doctor.checks import (
    build,
    disk,
    environment,
    folders,
    gates,
    gpu,
    install,
    kernel,
    limits,
    memory,
    model,
    network,
    plan,
    store,
)

CHECKS: tuple[Check, ...] = (
    *install.CHECKS,
    *environment.CHECKS,
    *plan.SETTINGS,
    *gpu.CHECKS,
    *gates.CHECKS,
    *build.CHECKS,
    *plan.CHECKS,
    *memory.CHECKS,
    *limits.CHECKS,
    *kernel.CHECKS,
    *folders.CHECKS,
    *disk.CHECKS,
    *network.CHECKS,
    *model.CHECKS,
    *store.CHECKS,
)


def examine(case: Case, checks: Iterable[Check] = CHECKS) -> Iterator[Finding]:
    """Runs the checks that apply to ``case``; each gives one finding or more."""
    for check in checks:
        if (check.when == "launch" and case.launch is None) or (check.when == "cuda" and not case.cuda):
            continue
        try:
            yield from [replace(finding, check=check.name) for finding in check.find(case)]
        except OSError as error:
            found = warn(
                f"This could not be looked at: {error}.", "See that this user may read it, then look again."
            )
            yield replace(found, check=check.name)
