"""Which config.json a plan is made from, and for which device."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from penny_models.shapes import known_config
from penny_server.plan.plan import Source, read_source
from penny_server.profiles import Device, Launch, Profile, load

KNOWN = {"flash-next": "flash-next-nvfp4", "qwen38-27b": "qwen38-27b-fp8", "swift-27b": "qwen38-27b-fp8"}
"""The shipped config for profiles whose name begins so."""
KNOWN_DRAFT = "dflash2-27b"


def device_of(profile: str, asked: Literal["auto", "cpu", "cuda"], sized: bool) -> Device:
    """The device to plan for: as asked, else a GPU where one is named or the profile knows nothing else."""
    devices = load(profile).devices
    if asked != "auto":
        return asked
    if sized:
        return "cuda"
    return "cpu" if "cpu" in devices else "cuda"


def choose_source(
    profile: Profile, launch: Launch, config: Path | None, draft: Path | None
) -> tuple[Source, str]:
    """The configs and a label that names them: given ones, else the checkpoint's, else those that are shipped.

    Raises PennyError: checkpoint for a file that cannot be read.
    """
    drafts = launch.settings.get("speculative_algorithm") == "DFLASH"
    beside = Path(str(launch.settings.get("speculative_draft_model_path") or ""))
    if draft is None and drafts and (beside / "config.json").is_file():
        draft = beside
    if config is None and (launch.checkpoint / "config.json").is_file():
        config = launch.checkpoint
    known = next((name for start, name in KNOWN.items() if profile.name.startswith(start)), None)
    if config is not None or known is None:
        source, label = read_source(config or launch.checkpoint, draft), str(config or launch.checkpoint)
    else:
        label = f"the public sizes ({known})"
        read = read_source(draft, None) if draft else None
        source = Source(
            known_config(known), Path(f"{known}/config.json"), read.config if read else None, draft
        )
    if drafts and source.draft is None:
        source = Source(
            source.config, source.where, known_config(KNOWN_DRAFT), Path(f"{KNOWN_DRAFT}/config.json")
        )
    return source, label
