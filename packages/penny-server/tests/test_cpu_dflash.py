"""Rejection sampling of a DFlash block on a CPU: the law of what is emitted, and where stock looks for it."""

from __future__ import annotations

import torch

from penny_server.sglang.seams.cpu_dflash import _reject

DRAWS = 40_000


def test_the_first_token_has_the_targets_law_and_stands_where_stock_reads_it() -> None:
    """One draft of four tokens; it is accepted with probability sum(min(p, q)) = 0.1 + 0.2 + 0.2 + 0.1."""
    torch.manual_seed(0)
    p, q = torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([0.4, 0.3, 0.2, 0.1])
    draft = torch.multinomial(q, DRAWS, replacement=True)
    places = torch.arange(2 * DRAWS).view(DRAWS, 2)
    predicts = torch.full((2 * DRAWS,), -1, dtype=torch.int32)
    accepted = torch.full((DRAWS, 2), -1)
    number = torch.zeros(DRAWS, dtype=torch.int32)
    _reject(
        predicts=predicts,
        accept_index=accepted,
        accept_token_num=number,
        candidates=torch.stack([torch.zeros_like(draft), draft], 1),
        retrive_index=places,
        uniform_samples=torch.rand(DRAWS, 1),
        uniform_samples_for_final_sampling=torch.rand(DRAWS),
        target_probs=p.expand(DRAWS, 2, 4),
        draft_probs=q.expand(DRAWS, 1, 4),
    )
    first, second = predicts.view(DRAWS, 2).unbind(1)
    found = torch.bincount(first.long(), minlength=4) / DRAWS
    torch.testing.assert_close(found, p, rtol=0, atol=0.01)  # four standard errors
    assert abs(float(number.float().mean()) - 0.6) < 0.01
    took = number == 1
    assert torch.equal(first[took].long(), draft[took])
    assert torch.equal(accepted[:, 0], places[:, 0])
    assert torch.equal(accepted[took, 1], places[took, 1])
    assert (accepted[~took, 1] == -1).all()
    assert (second[~took] == -1).all()
    assert (second[took] >= 0).all()
