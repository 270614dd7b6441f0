"""``penny doctor``: what would make a start fail or a server slow, before anything is loaded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from penny_server.cli.options import (
    DebugOption,
    DeviceOption,
    DraftOption,
    HostOption,
    JsonOption,
    ModelOption,
    PortOption,
    SetOption,
    WithoutOption,
)
from penny_server.errors import ExitCode, PennyError

if TYPE_CHECKING:
    from penny_server.cli.resolving import Asked
    from penny_server.doctor import Case, Facts, Finding

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    profile: Annotated[
        str | None,
        typer.Argument(
            help="A profile name (see `penny profiles`) or a .toml file; without, only the machine."
        ),
    ] = None,
    host: HostOption = None,
    port: PortOption = None,
    device: DeviceOption = "auto",
    model: ModelOption = None,
    draft: DraftOption = None,
    set_: SetOption = None,
    without: WithoutOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out measuring the drives.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Find what would make a start of PROFILE fail or run slow; loads and changes nothing.

    Exit code 0 when nothing failed, 3 otherwise. Takes the same options as `penny serve`.
    """
    from penny_server.cli.resolving import Asked
    from penny_server.doctor import CHECKS, examine, read_facts

    facts = read_facts(os.environ)
    asked = Asked(profile or "", device, set_ or [], without or [], host, port, model, draft, dry=True)
    checks = [check for check in CHECKS if not (quick and check.name.startswith("disk."))]
    findings = examine(_case(facts, asked) if profile else _machine(facts), checks)
    failed = _print_json(findings) if as_json else _print(findings, profile)
    if failed:
        raise typer.Exit(int(ExitCode.ENVIRONMENT))


def _machine(facts: Facts) -> Case:
    from penny_server.doctor import Case

    return Case(facts)


def _case(facts: Facts, asked: Asked) -> Case:
    """The case of what was asked for; settings that contradict are a finding, an unknown profile is an error."""
    from penny_server.cli.resolving import NO_MODEL, launch_of
    from penny_server.doctor import Case, prepare
    from penny_server.profiles import load

    profile = load(asked.profile)
    try:
        found, launch, _ = launch_of(asked)
    except PennyError as error:
        return Case(facts, profile, refusals={"settings.resolve": error})
    return prepare(facts, found, launch, model_given=launch.checkpoint != NO_MODEL)


def _print_json(findings: Iterable[Finding]) -> bool:
    found = list(findings)
    counts = {state: sum(f.state == state for f in found) for state in STYLES}
    print(json.dumps({"findings": [asdict(f) for f in found], **counts}, indent=2))
    return counts["fail"] > 0


def _print(findings: Iterable[Finding], profile: str | None) -> bool:
    from rich.markup import escape

    from penny_server.cli import output

    console = output.console()
    table = output.table("", "check", "found, and what to do")
    counts = dict.fromkeys(STYLES, 0)
    for finding in _progress(findings):
        counts[finding.state] += 1
        fix = f"\n[bold]{escape(finding.fix)}[/]" if finding.fix else ""
        table.add_row(
            f"[{STYLES[finding.state]}]{finding.state}[/]", finding.check, f"{escape(finding.found)}{fix}"
        )
    console.print(table)
    what = f"A start of {profile}" if profile else "A start"
    verdict = (
        "would fail"
        if counts["fail"]
        else "would be slower than it could be"
        if counts["warn"]
        else "is fine"
    )
    console.print(f"{what} {verdict}: {counts['fail']} fail, {counts['warn']} warn, {counts['ok']} ok.")
    return counts["fail"] > 0


def _progress(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings, with the name of the latest check on a terminal while they come."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield from findings
        return
    with console.status("Looking") as status:
        for finding in findings:
            status.update(f"Looking: {finding.check}")
            yield finding
