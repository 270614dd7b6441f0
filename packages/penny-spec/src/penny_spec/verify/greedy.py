"""Greedy verification."""

from torch import Tensor

from penny_spec.verify.chain import Verdict, assemble, chain_ends, count_accepted, row_at
from penny_spec.verify.checks import check_chain, check_finite, check_shapes


def greedy(
    draft_tokens: Tensor, target_logits: Tensor, *, lengths: Tensor | None = None, validate: bool = True
) -> Verdict:
    """Accept draft tokens as long as each is the target's most likely token.

    The emitted tokens are exactly those of decoding one by one with argmax. Between equal logits the lowest
    token id wins, here as in `torch.argmax`; a draft token that ties with a lower id is therefore rejected.

    Args:
        draft_tokens: int32 or int64 `(B, K)`, ids in the target's vocabulary; `K` may be 0.
        target_logits: float32 or float64 `(B, K + 1, V)`; probabilities serve too. Masked tokens: `-inf`.
        lengths: int32 or int64 `(B,)`, draft tokens of each request if some chains are shorter than `K`. What
            stands behind a chain's end is not read; the bonus row is then `target_logits[b, lengths[b]]`.
        validate: look at the values too, not just at shapes and dtypes. On a GPU this waits for the device.

    Returns:
        The `Verdict`.

    Raises:
        ValueError: shapes or devices do not fit; with `validate`, an id or length out of range, a NaN or
            +inf, or a row in which everything is masked.
        TypeError: a dtype other than those above.
    """
    check_shapes(draft_tokens, target_logits, "target_logits", lengths=lengths)
    ends = chain_ends(draft_tokens, lengths)
    if validate:
        check_chain(draft_tokens, target_logits.shape[2], lengths)
        check_finite("target_logits", target_logits, ends)
    choice = target_logits.argmax(dim=-1)
    accepted = count_accepted(draft_tokens == choice[:, :-1], ends)
    return assemble(draft_tokens, accepted, row_at(choice.unsqueeze(-1), accepted).squeeze(-1))
