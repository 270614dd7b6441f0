"""What penny-spec decides about a chain, written to where stock's sampling kernels write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def coins_of(given: Mapping[str, Any]) -> Any:
    """float [requests, drafts + 1] for ``penny_spec.verify``: one a draft, and the one that draws the last token."""
    import torch

    drafts = given["candidates"].shape[1] - 1
    last = given["uniform_samples_for_final_sampling"][:, None]
    return torch.cat((given["uniform_samples"][:, :drafts], last), 1)


def write(given: Mapping[str, Any], verdict: Any) -> None:
    """Fill what a sampling kernel of stock fills.

    Args:
        given: the kernel's keyword arguments: ``retrive_index`` [requests, width] has each token's place in the flat
            ``predicts``; ``accept_index`` [requests, width] and ``accept_token_num`` [requests] are written too.
        verdict: a ``penny_spec.verify.Verdict`` of width - 1 drafts.
    """
    import torch

    places = given["retrive_index"].long()
    kept = torch.arange(places.shape[1]) <= verdict.accepted[:, None]
    given["accept_token_num"].copy_(verdict.accepted)
    given["accept_index"].copy_(places.where(kept, given["accept_index"]))
    given["predicts"][places[kept]] = verdict.tokens[kept].to(given["predicts"].dtype)
