"""Refusals of wrong arguments, as sentences."""

import torch
from torch import Tensor

_FLOATS = (torch.float32, torch.float64)
_INTEGERS = (torch.int32, torch.int64)


def check_shapes(
    draft_tokens: Tensor,
    target: Tensor,
    target_name: str,
    draft_probs: Tensor | None = None,
    coins: Tensor | None = None,
    lengths: Tensor | None = None,
) -> None:
    """Raise `ValueError` or `TypeError` unless shapes, dtypes and devices fit together."""
    if draft_tokens.dim() != 2:
        raise ValueError(
            f"draft_tokens has shape {tuple(draft_tokens.shape)}; pass it as (batch, chain length)."
        )
    batch, width = draft_tokens.shape
    if target.dim() != 3 or target.shape[:2] != (batch, width + 1) or target.shape[2] == 0:
        raise ValueError(
            f"{target_name} has shape {tuple(target.shape)} for draft_tokens of shape {(batch, width)}; it "
            f"needs {(batch, width + 1)} rows of the vocabulary, one more than there are draft tokens."
        )
    _check_dtype("draft_tokens", draft_tokens, _INTEGERS)
    _check_dtype(target_name, target, _FLOATS)
    named: list[tuple[str, Tensor | None, tuple[int, ...], tuple[torch.dtype, ...]]] = [
        ("draft_probs", draft_probs, (batch, width, target.shape[2]), _FLOATS),
        ("coins", coins, (batch, width + 1), _FLOATS),
        ("lengths", lengths, (batch,), _INTEGERS),
    ]
    for name, tensor, shape, dtypes in named:
        if tensor is None:
            continue
        if tensor.shape != shape:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}; pass it as {shape} to fit draft_tokens."
            )
        _check_dtype(name, tensor, dtypes)
    for name, tensor in [("draft_tokens", draft_tokens), *[(n, t) for n, t, _, _ in named if t is not None]]:
        if tensor.device != target.device:
            raise ValueError(
                f"{name} is on {tensor.device} and {target_name} on {target.device}; move one of them."
            )


def check_chain(draft_tokens: Tensor, vocabulary: int, lengths: Tensor | None) -> None:
    """Raise `ValueError` for a chain length outside 0..K or a draft token outside the vocabulary."""
    width = draft_tokens.shape[1]
    inside = (draft_tokens >= 0) & (draft_tokens < vocabulary)
    if lengths is not None:
        if bool(((lengths < 0) | (lengths > width)).any()):
            raise ValueError(
                f"lengths holds {lengths.tolist()}; each must be between 0 and {width} draft tokens."
            )
        inside |= torch.arange(width, device=inside.device) >= lengths.unsqueeze(1)
    if not bool(inside.all()):
        request, position = (~inside).nonzero()[0].tolist()
        raise ValueError(
            f"Draft token {position} of request {request} is {int(draft_tokens[request, position])}; the "
            f"vocabulary has ids 0 to {vocabulary - 1}. Map ids of a reduced head back first."
        )


def check_finite(name: str, logits: Tensor, last: Tensor) -> None:
    """Raise `ValueError` for NaN, +inf, or all -inf in row `[b, j]` of `logits`, for `j` up to `last[b]`."""
    read = _rows_read(logits, last)
    bad = (torch.isnan(logits) | (logits == torch.inf)).any(dim=-1) & read
    if bool(bad.any()):
        raise ValueError(
            f"Row {bad.nonzero()[0].tolist()} of {name} holds NaN or +inf; logits must be finite or -inf."
        )
    empty = (logits == -torch.inf).all(dim=-1) & read
    if bool(empty.any()):
        raise ValueError(
            f"Row {empty.nonzero()[0].tolist()} of {name} masks every token; leave at least one."
        )


def check_distributions(name: str, probs: Tensor, last: Tensor) -> None:
    """Raise `ValueError` unless row `[b, j]` sums to 1 within 1e-3, for `j` up to `last[b]`."""
    sums = probs.double().sum(dim=-1)
    wrong = ((probs < 0).any(dim=-1) | ~((sums - 1).abs() <= 1e-3)) & _rows_read(probs, last)
    if bool(wrong.any()):
        row = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"Row {row} of {name} is no distribution: it sums to {float(sums[tuple(row)]):.6g} and its "
            f"smallest entry is {float(probs[tuple(row)].min()):.6g}. Pass probabilities, not logits."
        )


def check_coins(coins: Tensor) -> None:
    """Raise `ValueError` unless every coin lies in [0, 1)."""
    outside = ~((coins >= 0) & (coins < 1))
    if bool(outside.any()):
        where = outside.nonzero()[0].tolist()
        raise ValueError(
            f"Coin {where} is {float(coins[tuple(where)])}; draw coins in [0, 1), as torch.rand does."
        )


def _check_dtype(name: str, tensor: Tensor, allowed: tuple[torch.dtype, ...]) -> None:
    if tensor.dtype not in allowed:
        names = " or ".join(str(dtype).removeprefix("torch.") for dtype in allowed)
        raise TypeError(f"{name} is {str(tensor.dtype).removeprefix('torch.')}; convert it to {names}.")


def _rows_read(rows: Tensor, last: Tensor) -> Tensor:
    return torch.arange(rows.shape[1], device=rows.device) <= last.unsqueeze(1)
