"""Presence, frequency and repetition penalties and logit bias on the target's rows of a chain.

A penalty depends on the tokens generated so far. Row `j` of a chain answers after `j` accepted draft tokens, so in the
exact form it counts those too. SGLang applies one count, taken before the block, to all rows (for EAGLE and NEXTN in
`eagle_utils.py`; its DFLASH verification drops penalties): the two differ in rows 1 to `K` at the ids of the chain's
own draft tokens, and only there. With the exact form, verification emits what decoding token by token emits.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from penny_spec.verify.chain import chain_ends
from penny_spec.verify.checks import check_chain, check_shapes


@dataclass(frozen=True, eq=False)
class Penalties:
    """Penalties of one batch; a number stands for all requests, a float tensor `(B,)` for one each.

    Applied in this order, which is SGLang's: presence and frequency, repetition, bias.

    Attributes:
        presence: subtracted once from the logit of each token generated before.
        frequency: subtracted for each time that the token was generated before.
        repetition: positive; divides the logits above 0 of tokens generated before, multiplies those below.
        bias: float `(B, V)` or `(V,)`, added to the logits; `-inf` bans a token. None: nothing.
    """

    presence: Tensor | float = 0.0
    frequency: Tensor | float = 0.0
    repetition: Tensor | float = 1.0
    bias: Tensor | None = None


def count_tokens(tokens: Tensor, vocabulary: int) -> Tensor:
    """int64 `(B, V)`: how often each id occurs in `tokens` int32 or int64 `(B, T)`; negative ids are padding.

    Raises:
        ValueError: an id of the vocabulary's size or more.
    """
    highest = int(tokens.max()) if tokens.numel() else -1
    if highest >= vocabulary:
        raise ValueError(f"tokens holds id {highest}; the vocabulary has ids 0 to {vocabulary - 1}.")
    counts = torch.zeros(len(tokens), vocabulary, dtype=torch.long, device=tokens.device)
    return counts.scatter_add_(1, tokens.long().clamp_min(0), (tokens >= 0).long())


def penalise(
    target_logits: Tensor,
    draft_tokens: Tensor,
    generated: Tensor,
    penalties: Penalties,
    *,
    lengths: Tensor | None = None,
    validate: bool = True,
) -> Tensor:
    """The target's rows with penalties, exact: row `j` counts `generated` and the first `j` draft tokens.

    Args:
        target_logits: float32 or float64 `(B, K + 1, V)`.
        draft_tokens: int32 or int64 `(B, K)`.
        generated: int64 `(B, V)`, how often each token was generated before the block (`count_tokens`), the anchor
            included. SGLang counts generated tokens only; count the prompt too for the rule of Hugging Face.
        penalties: the penalties.
        lengths: int32 or int64 `(B,)`, draft tokens of each request if some chains are shorter than `K`. Draft
            tokens behind a chain's end are not counted.
        validate: look at the values too, not just at shapes and dtypes. On a GPU this waits for the device.

    Returns:
        New logits like `target_logits`.

    Raises:
        ValueError: shapes or devices do not fit; with `validate`, an id or length out of range, a negative count, a
            repetition penalty that is not positive, or a value that is not finite (but a bias of `-inf`).
        TypeError: a dtype other than those above.
    """
    _check(target_logits, draft_tokens, generated, penalties, lengths, validate)
    width = draft_tokens.shape[1]
    inside = torch.arange(width, device=draft_tokens.device) < chain_ends(draft_tokens, lengths).unsqueeze(1)
    drafted = torch.zeros(target_logits.shape, dtype=torch.long, device=target_logits.device)
    ids = torch.where(inside, draft_tokens, 0).long().unsqueeze(2)
    drafted[:, 1:].scatter_(2, ids, inside.long().unsqueeze(2))
    return _apply(target_logits, generated.unsqueeze(1) + drafted.cumsum(dim=1), penalties)


def penalise_constant(
    target_logits: Tensor,
    draft_tokens: Tensor,
    generated: Tensor,
    penalties: Penalties,
    *,
    validate: bool = True,
) -> Tensor:
    """The target's rows with penalties as SGLang has them in speculation: all rows count `generated` only.

    A token accepted inside the block is not penalised again before the next block, so the output may repeat where
    decoding token by token would not. Arguments, result and errors as `penalise`.
    """
    _check(target_logits, draft_tokens, generated, penalties, None, validate=False)
    if validate:
        _check_values(generated, penalties)
    return _apply(target_logits, generated.unsqueeze(1), penalties)


def _apply(logits: Tensor, counts: Tensor, penalties: Penalties) -> Tensor:
    presence, frequency, repetition = (
        torch.as_tensor(value, dtype=logits.dtype, device=logits.device).reshape(-1, 1, 1)
        for value in (penalties.presence, penalties.frequency, penalties.repetition)
    )
    seen = counts > 0
    logits = logits - (counts.to(logits.dtype) * frequency + seen.to(logits.dtype) * presence)
    scaled = torch.where(logits < 0, logits * repetition, logits / repetition)
    logits = torch.where(seen, scaled, logits)
    bias = penalties.bias
    return logits if bias is None else logits + bias.to(logits.dtype).unsqueeze(-2)


def _check(
    target_logits: Tensor,
    draft_tokens: Tensor,
    generated: Tensor,
    penalties: Penalties,
    lengths: Tensor | None,
    validate: bool,
) -> None:
    check_shapes(draft_tokens, target_logits, "target_logits", lengths=lengths)
    batch, _, vocabulary = target_logits.shape
    if generated.shape != (batch, vocabulary) or generated.is_floating_point():
        raise ValueError(
            f"generated is {str(generated.dtype).removeprefix('torch.')} of shape {tuple(generated.shape)}; pass "
            f"integer counts {(batch, vocabulary)}, as count_tokens gives them."
        )
    for name in ("presence", "frequency", "repetition"):
        value = getattr(penalties, name)
        if isinstance(value, Tensor) and value.shape != (batch,):
            raise ValueError(f"{name} has shape {tuple(value.shape)}; pass a number or shape {(batch,)}.")
    bias = penalties.bias
    if bias is not None and bias.shape not in ((batch, vocabulary), (vocabulary,)):
        raise ValueError(
            f"bias has shape {tuple(bias.shape)}; pass {(batch, vocabulary)} or {(vocabulary,)}."
        )
    if validate:
        check_chain(draft_tokens, vocabulary, lengths)
        _check_values(generated, penalties)


def _check_values(generated: Tensor, penalties: Penalties) -> None:
    if bool((generated < 0).any()):
        raise ValueError("generated holds a negative count; count with count_tokens.")
    for name in ("presence", "frequency", "repetition"):
        value = torch.as_tensor(getattr(penalties, name), dtype=torch.float64)
        if not bool(value.isfinite().all()) or (name == "repetition" and bool((value <= 0).any())):
            wanted = "finite and positive" if name == "repetition" else "finite"
            raise ValueError(f"{name} is {value.tolist()}; it must be {wanted}.")
    bias = penalties.bias
    if bias is not None and bool((bias.isnan() | (bias == torch.inf)).any()):
        raise ValueError("bias holds NaN or +inf; it must be finite, or -inf for a banned token.")
