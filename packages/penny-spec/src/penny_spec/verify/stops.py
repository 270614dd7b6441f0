"""After verification: where a request ends inside an accepted run, what counts as reasoning, which state is kept."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class Ending:
    """What a request keeps of a verified run.

    Attributes:
        tokens: the tokens that are emitted; a stop token is the last of them.
        reason: "stop", "length", or None if the request goes on.
    """

    tokens: tuple[int, ...]
    reason: Literal["stop", "length"] | None


def end_run(
    run: Sequence[int], *, before: int, max_new_tokens: int, stop_ids: Collection[int] = ()
) -> Ending:
    """Cut a verified run at its first stop token or at the length limit, whichever comes first.

    A stop token that still fits the limit ends the request with "stop", also as its very last token; one behind the
    limit does not count. Nothing after the end is emitted, as if tokens had come one by one.

    Args:
        run: accepted draft tokens and the target's own token.
        before: tokens that the request generated before the run.
        max_new_tokens: how many it may generate in all.
        stop_ids: tokens that end it.

    Raises:
        ValueError: `before` is negative, or at the limit already, so that there should have been no run.
    """
    if not 0 <= before < max_new_tokens:
        raise ValueError(
            f"The request has {before} of {max_new_tokens} new tokens; a run can only follow while some are left."
        )
    fits = run[: max_new_tokens - before]
    for index, token in enumerate(fits):
        if token in stop_ids:
            return Ending(tuple(fits[: index + 1]), "stop")
    return Ending(tuple(fits), "length" if before + len(fits) == max_new_tokens else None)


@dataclass(frozen=True)
class ReasoningCount:
    """Tokens of reasoning so far, the closing token included, and whether it was closed."""

    tokens: int
    closed: bool


def count_reasoning(emitted: Sequence[int], so_far: ReasoningCount, close_id: int) -> ReasoningCount:
    """Count on over the tokens that `end_run` let through, up to and with `close_id` (`</think>`).

    Counting what is emitted, not what was accepted, keeps reasoning tokens at most as many as completion tokens.
    """
    if so_far.closed:
        return so_far
    if close_id in emitted:
        return ReasoningCount(so_far.tokens + list(emitted).index(close_id) + 1, True)
    return ReasoningCount(so_far.tokens + len(emitted), False)


def committed_state(states: Tensor, accepted: Tensor) -> Tensor:
    """The recurrent state to keep after partial acceptance: `(B, ...)` of `states` `(B, K + 1, ...)`.

    The target's pass runs over the pending token (the anchor) and `K` draft tokens, and leaves a state after each.
    With `accepted` draft tokens the state after row `accepted` has taken in the pending token and those, and not the
    token that verification added: that one is pending next, with or without drafts behind it.

    Args:
        states: any dtype `(B, K + 1, ...)`, the state after each row.
        accepted: int64 `(B,)`, as in `Verdict.accepted`.

    Raises:
        ValueError: shapes do not fit, or `accepted` lies outside 0 to `K`.
    """
    if states.dim() < 2 or accepted.shape != states.shape[:1]:
        raise ValueError(
            f"states has shape {tuple(states.shape)} and accepted {tuple(accepted.shape)}; pass (batch, rows, ...) "
            "and (batch,)."
        )
    if bool(((accepted < 0) | (accepted >= states.shape[1])).any()):
        raise ValueError(
            f"accepted is {accepted.tolist()}; a chain with {states.shape[1]} states has 0 to "
            f"{states.shape[1] - 1} draft tokens."
        )
    return states[torch.arange(len(states), device=states.device), accepted]
