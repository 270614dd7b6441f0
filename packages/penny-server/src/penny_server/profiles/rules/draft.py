"""A DFlash draft's config against the model that it drafts for; stock looks at neither and drafts nonsense."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penny_server.errors import ExitCode
from penny_server.profiles.rules.base import Case, refuse
from penny_server.profiles.speculation import TOKENS

TAKE = "Take the draft that was made for this model."


def _refuse(message: str, hint: str = TAKE) -> None:
    refuse(message, hint, ExitCode.CHECKPOINT)


def check_draft(case: Case, target: Mapping[str, Any], draft: Mapping[str, Any], folder: Path) -> None:
    """Raises PennyError (checkpoint) for a draft that was not made for the model.

    Args:
        case: the settings.
        target: the model's own text config.
        draft: the draft's ``config.json``; ``folder`` holds it.
    """
    flash = draft.get("dflash_config")
    if not isinstance(flash, Mapping):
        if case.get("speculative_algorithm") == "DFLASH":
            _refuse(f"{folder / 'config.json'} has no dflash_config object, so this is no DFlash draft.")
        return
    for name, what in (
        ("hidden_size", "hidden states of {} values"),
        ("vocab_size", "a vocabulary of {} tokens"),
    ):
        found, wanted = draft.get(name), target.get(name)
        if found and wanted and found != wanted:
            _refuse(f"The draft in {folder} reads {what.format(f'{found:,}')}, and the model has {wanted:,}.")
    layers = int(target.get("num_hidden_layers") or 0)
    beyond = [index for index in flash.get("target_layer_ids") or () if index >= layers]
    if layers and beyond:
        _refuse(
            f"The draft in {folder} reads the model's layer {beyond[0]}, and the last one is {layers - 1}."
        )
    block, tokens = flash.get("block_size") or draft.get("block_size"), case.number(TOKENS)
    if block and tokens and block != tokens:
        _refuse(
            f"The draft in {folder} was trained on blocks of {block}, and {TOKENS} is {tokens}.",
            f"Set {TOKENS} to {block}, or take another draft.",
        )
