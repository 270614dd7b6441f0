"""Sampling of a NEXTN chain on a CPU: the law of what is emitted, and where stock looks for it."""

from __future__ import annotations

import torch

from penny_server.sglang.seams.cpu_spec import _as_elsewhere, _target_only

DRAWS = 40_000


def test_two_drafts_leave_the_targets_law() -> None:
    """The drafts are always tokens 2 and 0: the first is kept with p(2) = 0.3, the second with q(0) = 0.5."""
    torch.manual_seed(0)
    p, q = torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([0.5, 0.25, 0.25, 0.0])
    places = torch.arange(3 * DRAWS).view(DRAWS, 3)
    predicts = torch.full((3 * DRAWS,), -1, dtype=torch.int32)
    accepted = torch.full((DRAWS, 3), -1, dtype=torch.int32)
    number = torch.zeros(DRAWS, dtype=torch.int32)
    _target_only(
        predicts=predicts,
        accept_index=accepted,
        accept_token_num=number,
        candidates=torch.tensor([[1, 2, 0]]).expand(DRAWS, 3),
        retrive_index=places,
        uniform_samples=torch.rand(DRAWS, 3),
        uniform_samples_for_final_sampling=torch.rand(DRAWS),
        target_probs=torch.stack([p, q, p]).expand(DRAWS, 3, 4),
    )
    first, second, third = predicts.view(DRAWS, 3).long().unbind(1)
    close = {"rtol": 0, "atol": 0.01}  # four standard errors of the first, three of the second
    torch.testing.assert_close(torch.bincount(first, minlength=4) / DRAWS, p, **close)
    after = second[number >= 1]
    torch.testing.assert_close(torch.bincount(after, minlength=4) / len(after), q, **close)
    torch.testing.assert_close(
        torch.bincount(number, minlength=3) / DRAWS, torch.tensor([0.7, 0.15, 0.15]), **close
    )
    assert (first[number >= 1] == 2).all()
    assert (first[number == 0] != 2).all()
    assert (second[number == 0] == -1).all()
    assert (third[number < 2] == -1).all()
    assert (third[number == 2] >= 0).all()
    assert torch.equal(accepted[number == 2], places[number == 2].int())
    assert (accepted[number == 1, 2] == -1).all()


def test_a_cpu_verifies_as_a_gpu_does() -> None:
    def stock(*, is_all_greedy: bool, is_cpu: bool, is_xpu: bool) -> bool:
        return is_all_greedy or is_cpu or is_xpu

    assert not _as_elsewhere(stock, is_all_greedy=False, is_cpu=True, is_xpu=False)
    assert _as_elsewhere(stock, is_all_greedy=True, is_cpu=True, is_xpu=False)
