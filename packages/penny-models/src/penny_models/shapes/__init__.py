"""What a ``config.json`` says about memory: weights, KV, recurrent state, drafts, PLE. Arithmetic only, no torch."""

from penny_models.shapes.base import WIDTHS, Format, Part
from penny_models.shapes.draft import (
    DFlashShape,
    dflash_parts,
    nextn_parts,
    nextn_storage,
    nextn_tables,
    read_dflash,
)
from penny_models.shapes.known import known_config, known_names
from penny_models.shapes.kv import TokenCost, token_cost
from penny_models.shapes.model import ModelShape, merged, model_shape, read_config
from penny_models.shapes.ple import NgramTable, ngram_tables
from penny_models.shapes.state import SlotState, replay_ring, slot_state, verify_state
from penny_models.shapes.storage import Storage, read_storage, unquantised
from penny_models.shapes.text import TextShape, read_text

__all__ = [
    "WIDTHS",
    "DFlashShape",
    "Format",
    "ModelShape",
    "NgramTable",
    "Part",
    "SlotState",
    "Storage",
    "TextShape",
    "TokenCost",
    "dflash_parts",
    "known_config",
    "known_names",
    "merged",
    "model_shape",
    "nextn_parts",
    "nextn_storage",
    "nextn_tables",
    "ngram_tables",
    "read_config",
    "read_dflash",
    "read_storage",
    "read_text",
    "replay_ring",
    "slot_state",
    "token_cost",
    "unquantised",
    "verify_state",
]
