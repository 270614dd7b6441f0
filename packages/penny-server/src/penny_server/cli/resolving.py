"""From the words on the command line to a launch: files, environment, flags, device and checkpoints."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from penny_server.errors import ExitCode, PennyError
from penny_server.profiles import Device, Launch, Overrides, Profile, load, load_all, parse_overrides, resolve
from penny_server.profiles.settings import Person, gather
from penny_server.serving.choose import choose_checkpoint, choose_device, runs_on, surroundings
from penny_server.serving.gpu import Gpu, usable_gpus

NO_MODEL = Path("MODEL")
NO_DRAFT = Path("DRAFT")
"""What a dry run shows for a checkpoint that was not given."""


@dataclass(frozen=True)
class Asked:
    """The flags of ``penny serve`` and ``penny profiles show``. ``dry`` launches are looked at, not started."""

    profile: str
    device: Literal["auto", "cpu", "cuda"] = "auto"
    settings: Sequence[str] = ()
    without: Sequence[str] = ()
    host: str | None = None
    port: int | None = None
    model: Path | None = None
    draft: Path | None = None
    dry: bool = False


def launch_of(asked: Asked) -> tuple[Profile, Launch, tuple[Gpu, ...]]:
    """The profile, what it resolves to here, and the usable GPUs. Raises PennyError.

    A dry launch may be for another machine: the device needs not be here, nor the checkpoints.
    """
    profile = load(asked.profile)
    person = gather(profile.name, os.environ)
    layers = (*person.layers, parse_overrides(asked.settings))
    gpus = usable_gpus()
    device = _device(profile, asked, person, gpus)
    here = surroundings()
    if device == "cuda" and gpus:
        here = replace(here, compute_capability=gpus[0].compute_capability)
    model = asked.model or person.model
    missing = asked.dry and model is None and profile.model.required
    checkpoint = NO_MODEL if missing else choose_checkpoint(profile, model)
    without = [name for names in asked.without for name in names.split(",") if name]

    def resolved(draft: Path | None) -> Launch:
        under = [*_map_layer(profile), *([_draft_layer(draft, asked.draft is not None)] if draft else [])]
        host, port = asked.host or person.host, asked.port or person.port
        return resolve(profile, device, checkpoint, here, (*under, *layers), host, port, without)

    launch = resolved(asked.draft or person.draft)
    drafts = launch.settings.get("speculative_algorithm") and profile.draft is not None
    if drafts and not launch.settings.get("speculative_draft_model_path"):
        unknown = asked.dry and profile.draft is not None and profile.draft.required
        launch = resolved(NO_DRAFT if unknown else _profiles_draft(profile))
    return profile, launch, gpus


def _profiles_draft(profile: Profile) -> Path:
    if profile.draft is not None and profile.draft.path is not None:
        return profile.draft.path
    if profile.draft is not None and profile.draft.tiny is not None:
        from penny_models import tiny

        return tiny.path(profile.draft.tiny)
    raise PennyError(
        f"The profile {profile.name} comes without the checkpoint of its draft model.",
        ExitCode.USAGE,
        f"Say where it is: penny serve {profile.name} --draft FOLDER",
    )


def _draft_layer(draft: Path, flag: bool) -> Overrides:
    path = str(draft.expanduser().absolute()) if draft != NO_DRAFT else str(draft)
    origin = "--draft" if flag else "the settings' draft"
    return Overrides({"speculative_draft_model_path": path}, origin=origin)


def _map_layer(profile: Profile) -> list[Overrides]:
    if profile.token_map is None:
        return []
    from penny_models import tiny

    path = str(tiny.token_map(profile.token_map.tiny))
    return [Overrides({"speculative_token_map": path}, origin=f"profile {profile.name}")]


def _device(profile: Profile, asked: Asked, person: Person, gpus: Sequence[Gpu]) -> Device:
    wanted = asked.device if asked.device != "auto" else person.device or "auto"
    if not asked.dry:
        return choose_device(profile, wanted, gpus, load_all())
    if wanted != "auto":
        return wanted
    return runs_on(profile, gpus) or profile.devices[-1]
