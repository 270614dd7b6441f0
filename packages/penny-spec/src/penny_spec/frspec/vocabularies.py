"""Whether a draft's ids mean what the target's mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

Kind = Literal["same", "padding", "differs", "shorter", "longer"]


@dataclass(frozen=True)
class VocabularyMatch:
    """Verdict on two vocabularies.

    Attributes:
        kind: `same`; `padding` (equal tokens, only the numbers of rows differ); `differs` (an id with two meanings);
            `shorter` (the draft lacks the last ids of the target); `longer` (it has ids that the target lacks).
        reason: one sentence, with the first id in question.
    """

    kind: Kind
    reason: str

    @property
    def ok(self) -> bool:
        """True when a draft id may be handed to the target as it is."""
        return self.kind in ("same", "padding")

    @property
    def ok_with_map(self) -> bool:
        """True when it may, provided that an explicit map names the ids which the draft proposes."""
        return self.ok or self.kind == "shorter"


def same_vocabulary(
    target: Sequence[str | None],
    draft: Sequence[str | None],
    *,
    target_rows: int | None = None,
    draft_rows: int | None = None,
) -> VocabularyMatch:
    """Compare two vocabularies id by id. Equal sizes are not equal vocabularies (sgl-project/sglang#24051).

    Args:
        target: the token of each id of the target, from 0; None for an id without a token.
        draft: the same of the draft.
        target_rows: rows of the target's head when padded above `len(target)`.
        draft_rows: rows of the draft's head when padded above `len(draft)`.
    """
    ours, theirs = _trimmed(target), _trimmed(draft)
    for token_id, (a, b) in enumerate(zip_longest(ours, theirs)):
        if a == b:
            continue
        if token_id >= len(theirs):
            return VocabularyMatch(
                "shorter",
                f"The draft ends at id {len(theirs) - 1}; the target goes on with id {token_id}, {a!r}. "
                "Give an explicit map of the draft's ids, or another draft.",
            )
        if token_id >= len(ours):
            return VocabularyMatch(
                "longer",
                f"Id {token_id} of the draft is {b!r}; the target has no such id. Take another draft.",
            )
        return VocabularyMatch(
            "differs",
            f"Id {token_id} differs: {a!r} in the target, {b!r} in the draft. Take a draft made for this tokenizer.",
        )
    rows = (target_rows or len(target), draft_rows or len(draft))
    if rows[0] != rows[1]:
        return VocabularyMatch(
            "padding", f"Equal tokens; the target has {rows[0]} rows, the draft {rows[1]}."
        )
    return VocabularyMatch("same", "Equal tokens and equal row counts.")


def _trimmed(tokens: Sequence[str | None]) -> Sequence[str | None]:
    end = len(tokens)
    while end and tokens[end - 1] is None:
        end -= 1
    return tokens[:end]
