"""Which device a profile runs on here, and which checkpoint it serves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from penny_server.errors import ExitCode, PennyError
from penny_server.profiles import Device, DeviceSection, Profile, Surroundings
from penny_server.serving.gpu import Gpu

GIB = 2**30


def runs_on(profile: Profile, gpus: Sequence[Gpu]) -> Device | None:
    """The device that ``--device auto`` takes for ``profile`` with these GPUs; None if it cannot run."""
    if profile.cuda is not None and gpus:
        wanted, memory = profile.cuda.compute_capability, gpus[0].memory_bytes
        # Memory that could not be read is let pass.
        if (not wanted or gpus[0].compute_capability in wanted) and (
            not memory or memory >= profile.cuda.vram_gib * GIB
        ):
            return "cuda"
    return "cpu" if profile.cpu is not None else None


def choose_device(
    profile: Profile,
    asked: Literal["auto", "cpu", "cuda"],
    gpus: Sequence[Gpu],
    others: Iterable[Profile],
) -> Device:
    """The device to serve ``profile`` on.

    Raises PennyError (environment) that says which GPU was found and which of ``others`` would run here.
    """
    device = runs_on(profile, gpus)
    if asked == "auto" and device is not None:
        return device
    if asked != "auto" and asked not in profile.devices:
        raise PennyError(
            f"The profile {profile.name} has no settings for the device {asked}; "
            f"it is made for: {', '.join(profile.devices)}.",
            ExitCode.USAGE,
        )
    if asked == "cpu" or (asked == "cuda" and device == "cuda"):
        return asked
    needs, found = _needs(profile.section("cuda")), _found(gpus)
    here = [other.name for other in others if runs_on(other, gpus) and _has_checkpoint(other)]
    hint = f"These profiles run here: {', '.join(here)}." if here else ""
    if device == "cpu":
        hint = f"Run it without a GPU: penny serve {profile.name} --device cpu"
    raise PennyError(
        f"The profile {profile.name} needs an NVIDIA GPU with {needs}, and this machine has {found}.",
        ExitCode.ENVIRONMENT,
        hint,
    )


def _has_checkpoint(profile: Profile) -> bool:
    """Whether the tiny checkpoint that a profile names is there; true for a profile that names none."""
    from penny_models import tiny

    return profile.model.tiny is None or profile.model.tiny in tiny.names()


def _needs(section: DeviceSection) -> str:
    wanted = section.compute_capability
    memory = f" and {section.vram_gib:g} GiB of memory" if section.vram_gib else ""
    return f"{'compute capability ' + ' or '.join(wanted) if wanted else 'CUDA'}{memory}"


def _found(gpus: Sequence[Gpu]) -> str:
    if not gpus:
        return "no NVIDIA GPU"
    memory = f" and {gpus[0].memory_bytes / GIB:.1f} GiB" if gpus[0].memory_bytes else ""
    return f"{gpus[0].name} with compute capability {gpus[0].compute_capability}{memory}"


def choose_checkpoint(profile: Profile, model: Path | None) -> Path:
    """The checkpoint folder: ``model`` if given, else what the profile names. Raises PennyError (usage)."""
    source = profile.model
    if model is not None:
        return model.expanduser().absolute()
    if source.path is not None:
        return source.path.expanduser().absolute()
    if source.tiny is None:
        raise PennyError(
            f"The profile {profile.name} comes without a checkpoint.",
            ExitCode.USAGE,
            f"Say where it is: penny serve {profile.name} --model FOLDER",
        )
    from penny_models import tiny

    if not _has_checkpoint(profile):
        raise PennyError(
            f"The checkpoint {source.tiny} of the profile {profile.name} is not in this version of penny-models.",
            ExitCode.USAGE,
            f"Make it (python -m penny_models.training --help), then: penny serve {profile.name} --model FOLDER",
        )
    return Path(tiny.path(source.tiny))


def surroundings() -> Surroundings:
    """Where the CPU stand-in lies, and half of the usable cores: the others serve HTTP and tokenize."""
    spec = find_spec("penny_kernels")
    places = list(spec.submodule_search_locations or ()) if spec else []
    standin = Path(places[0], "cpu", "standin") if places else Path("standin")
    return Surroundings(standin, threads=max(1, min(len(os.sched_getaffinity(0)) // 2, 8)))
