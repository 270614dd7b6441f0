"""Whether a launch fits this machine, this version of ours and its checkpoint, before anything is started."""

from __future__ import annotations

from collections.abc import Sequence

from penny_server.profiles import Launch, Profile
from penny_server.profiles.planned import refuse_unbuilt
from penny_server.profiles.rules import Case, check_fraction, check_gpus, check_model
from penny_server.serving.gpu import Gpu


def check_fit(profile: Profile, launch: Launch, gpus: Sequence[Gpu]) -> None:
    """Raises PennyError for GPUs that the profile was not made for, and for features that are not built yet."""
    if launch.device == "cuda":
        check_gpus(profile.name, profile.section("cuda"), gpus, int(launch.settings.get("tp_size") or 1))
    refuse_unbuilt(launch.profile, launch.needs)


def check_model_fit(launch: Launch, weight_bytes: int, gpus: Sequence[Gpu]) -> None:
    """Raises PennyError for settings that do not fit the checkpoint, its ``weight_bytes`` or the draft."""
    case = Case(launch.settings, launch.options, launch.device, launch.compute_capability, launch.features)
    check_model(case, launch.checkpoint)
    if launch.device == "cuda" and gpus and launch.options.get("ple_backend") is None:
        ranks = int(launch.settings.get("tp_size") or 1)
        check_fraction(launch.settings.get("mem_fraction_static"), weight_bytes / ranks, gpus[0])
