"""``penny profiles``: what can be served."""

from __future__ import annotations

import json

from penny_server.cli.options import DebugOption, JsonOption


def profiles(as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """List the profiles, and on which device each would run here."""
    from penny_server.cli import output
    from penny_server.profiles import load_all
    from penny_server.serving.choose import runs_on
    from penny_server.serving.gpu import usable_gpus

    gpus = usable_gpus()
    rows = [(profile, runs_on(profile, gpus)) for profile in load_all()]
    if as_json:
        listed = [
            {"name": p.name, "summary": p.summary, "devices": list(p.devices), "here": here}
            for p, here in rows
        ]
        print(json.dumps(listed, indent=2))
        return
    table = output.table("profile", "here", "devices", "summary")
    for profile, here in rows:
        needs = ", ".join(profile.cuda.compute_capability) if profile.cuda else ""
        devices = ", ".join(profile.devices) + (f" {needs}" if needs else "")
        table.add_row(
            f"[bold]{profile.name}[/]",
            f"[green]{here}[/]" if here else "[dim]no[/]",
            devices,
            profile.summary,
        )
    output.console().print(table)
