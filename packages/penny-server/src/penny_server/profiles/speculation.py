"""The three numbers of a draft chain, of which stock wants all or none: steps, top-k and draft tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penny_server.errors import ExitCode, PennyError
from penny_server.profiles.options import as_table

if TYPE_CHECKING:
    from penny_spec.adaptive import Slots

STEPS = "speculative_num_steps"
TOPK = "speculative_eagle_topk"
TOKENS = "speculative_num_draft_tokens"
CHAIN = (STEPS, TOKENS)

CHAINED = ("NEXTN", "EAGLE", "EAGLE3", "STANDALONE")
"""Algorithms whose draft model runs once for each step."""


def _refuse(message: str, hint: str = "") -> PennyError:
    return PennyError(message, ExitCode.USAGE, hint)


def complete_chain(steps: int | None, topk: int | None, tokens: int | None) -> tuple[int, int, int]:
    """Steps, top-k and draft tokens where one or two of them were given; at least one must be.

    With top-k 1 the draft is a chain, and the target verifies its tokens and the one before them:
    draft tokens = steps + 1. Raises PennyError (usage) for numbers that contradict each other.
    """
    topk = 1 if topk is None else topk
    for name, value in ((STEPS, steps), (TOPK, topk), (TOKENS, tokens)):
        if value is not None and value < 1:
            raise _refuse(
                f"{name} is {value}; it takes 1 or more.",
                "For no speculation set speculative_algorithm to nothing: --set speculative_algorithm=",
            )
    if topk > 1:
        if steps is None or tokens is None:
            raise _refuse(f"With {TOPK} {topk} the draft is a tree: give {STEPS} and {TOKENS} too.")
        return steps, topk, tokens
    if steps is None:
        if tokens is None:
            raise _refuse(f"{TOPK} is given alone: give {STEPS} or {TOKENS} too.")
        if tokens == 1:
            raise _refuse(
                f"{TOKENS} is 1, which drafts nothing: it counts the verified token before the drafts too."
            )
        return tokens - 1, topk, tokens
    if tokens is not None and tokens != steps + 1:
        raise _refuse(f"With {TOPK} 1, {TOKENS} must be {STEPS} + 1 = {steps + 1}, and it is {tokens}.")
    return steps, topk, steps + 1


def complete(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The missing numbers of the draft chain in ``settings``, given some of them. Raises PennyError (usage)."""
    algorithm = str(settings.get("speculative_algorithm") or "").upper()
    given = {key: settings.get(key) for key in (STEPS, TOPK, TOKENS) if settings.get(key) is not None}
    if algorithm not in CHAINED or not given:
        return {}
    numbers = complete_chain(given.get(STEPS), given.get(TOPK), given.get(TOKENS))
    completed = dict(zip((STEPS, TOPK, TOKENS), numbers, strict=True))
    return {key: value for key, value in completed.items() if key not in given}


def slots_of(asked: Any) -> Slots:
    """The candidates of the option ``adaptive``: draft tokens by batch size. Raises ValueError for what is none."""
    from penny_spec.adaptive import Slots

    table = as_table("adaptive", asked)
    if not all(str(size).isdecimal() and isinstance(widths, list) for size, widths in table.items()):
        raise ValueError("it takes lists of draft tokens by batch size.")
    if not all(type(width) is int for widths in table.values() for width in widths):
        raise ValueError("draft tokens are whole numbers.")
    return Slots(tuple(sorted((int(size), tuple(widths)) for size, widths in table.items())))


def adaptive(settings: Mapping[str, Any], options: Mapping[str, Any], device: str) -> dict[str, Any]:
    """What SGLang is told of the option ``adaptive``: its own switch, which it has for chains only.

    On a CPU, which has no graphs, stock would build them for each width but the first.
    """
    chained = str(settings.get("speculative_algorithm") or "").upper() in CHAINED
    if options.get("adaptive") is None or not chained:
        return {}
    graphs = {"cuda_graph_backend_decode": "disabled"} if device == "cpu" else {}
    return {"speculative_adaptive": True, **graphs}
