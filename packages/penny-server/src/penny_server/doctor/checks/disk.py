"""Measured rates of the drives."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penny_server.doctor.base import Case, Check, Finding, ok, warn
from penny_server.doctor.facts import Rate
from penny_server.doctor.places import places

STORE_RATE = 1.5e9
"""The reference restores at 0.8 to 1.5 GB/s; a slower drive is the limit itself."""
CACHE_RATE = 50e6
PATIENCE = 300.0
"""Seconds of reading a checkpoint that go without a word."""


def _text(rate: Rate) -> str:
    parts = [
        f"{value / 1e9:.2f} GB/s {what}"
        for what, value in (("read", rate.read), ("written", rate.write))
        if value
    ]
    return " and ".join(parts) + (f" ({rate.note})" if rate.note else "")


def _writing(case: Case) -> Iterable[Finding]:
    store = next((p for p in places(case) if p.setting == "store_dir"), None)
    place = store or next(p for p in places(case) if p.setting == "cache_dir")
    rate = case.facts.write_rate(place.path)
    if rate.write is None:
        yield warn(
            f"{place.path} ({place.purpose}) was not measured: {rate.note}.",
            "See the lines above on folders.",
        )
        return
    least = STORE_RATE if store else CACHE_RATE
    slowest = min(rate.write, rate.read or rate.write)
    text = f"{place.path} ({place.purpose}): {_text(rate)}"
    if slowest < least:
        yield warn(
            f"{text}; {least / 1e9:g} GB/s or more are wanted there.",
            f"Give a folder on a faster drive with {place.setting}, NVMe if there is one.",
        )
    else:
        yield ok(f"{text}.")


def largest_shard(folder: Path) -> Path | None:
    """The largest weight file of a checkpoint."""
    shards = [file for file in folder.glob("*.safetensors") if file.is_file()]
    return max(shards, key=lambda file: file.stat().st_size, default=None)


def _loading(case: Case) -> Iterable[Finding]:
    if (
        case.launch is None
        or not case.model_given
        or (shard := largest_shard(case.launch.checkpoint)) is None
    ):
        return
    rate = case.facts.read_rate(shard)
    size = sum(file.stat().st_size for file in case.launch.checkpoint.glob("*.safetensors"))
    if rate.read is None:
        yield ok(f"The checkpoint's drive was not measured: {rate.note}.")
    elif size / rate.read > PATIENCE:
        yield warn(
            f"The checkpoint's drive gives {_text(rate)}: loading takes {size / rate.read / 60:.0f} minutes.",
            "Copy the checkpoint to a faster drive.",
        )
    else:
        yield ok(f"The checkpoint's drive gives {_text(rate)}: loading takes {size / rate.read:.0f} s.")


CHECKS = (
    Check("disk.rate", "what the drive of the store, or else of the caches, reads and writes", _writing),
    Check("disk.checkpoint", "what the drive of the checkpoint reads", _loading, "launch"),
)
