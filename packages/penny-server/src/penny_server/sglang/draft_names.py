"""The tensors that a DFlash draft's module asks of its checkpoint, by the names of the checkpoint."""

from __future__ import annotations

from collections.abc import Iterable

STACKED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}
"""Modules that stock fills from several tensors (``DFlashDraftModel.load_weights``)."""
RENAMED = {"encoder.fc.weight": "fc.weight", "encoder.output_norm_enc.weight": "hidden_norm.weight"}
"""Other names that stock takes."""
COMPUTED = ("rotary_emb.inv_freq", "rotary_emb.cos_cached", "rotary_emb.sin_cached")
"""Ends of names that a checkpoint may have and nothing needs."""
SHOWN = 3
"""Names in a sentence."""


def wanted(parameters: Iterable[str]) -> set[str]:
    """The checkpoint's names for the module's ``parameters``, without the optional prefix ``model.``."""
    names: set[str] = set()
    for parameter in parameters:
        name = parameter.removeprefix("model.")
        stacked = next((module for module in STACKED if f".{module}." in name), None)
        parts = STACKED[stacked] if stacked else ()
        names |= {name.replace(f".{stacked}.", f".{part}.") for part in parts} or {name}
    return names


def refusal(parameters: Iterable[str], found: Iterable[str]) -> str | None:
    """The sentence for a checkpoint with the tensors ``found``; None when each is one that a parameter asks for."""
    asked = wanted(parameters)
    plain = (name.removeprefix("model.") for name in found)
    given = {RENAMED.get(name, name) for name in plain if not name.endswith(COMPUTED)}
    told = []
    for verb, names in (("lacks", asked - given), ("has, under names that nothing reads,", given - asked)):
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            told.append(f"{verb} {', '.join(sorted(names)[:SHOWN])}{more}")
    if not told:
        return None
    return (
        f"The draft's checkpoint {' and '.join(told)}; parameters without a tensor would be whatever the memory held. "
        "Fetch the draft again, or take the one that its config.json belongs to."
    )
