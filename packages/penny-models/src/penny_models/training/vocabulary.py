"""The vocabulary that every tiny checkpoint shares."""

from penny_models.training.special_tokens import SPECIAL_TOKENS

VOCAB_SIZE = 4096
MAX_POSITIONS = 8192
"""Positions that a configuration allows; the data card says how many were trained."""


def token_id(token: str) -> int:
    """Return the id of a special token: they are the last ids of the vocabulary, in the family's order."""
    return VOCAB_SIZE - len(SPECIAL_TOKENS) + SPECIAL_TOKENS.index(token)
