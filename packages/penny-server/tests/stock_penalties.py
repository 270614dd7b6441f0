"""Penalties of a verified block, row by row, against SGLang's own penalizers fed token by token; and their order.

Run by `test_penalties` in a process of its own: importing SGLang sets environment variables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch

from penny_server.sglang.seams import penalties, spec_penalties

penaltylib = pytest.importorskip("sglang.srt.sampling.penaltylib")
VOCABULARY = 12
ALL = (
    penaltylib.BatchedFrequencyPenalizer,
    penaltylib.BatchedMinNewTokensPenalizer,
    penaltylib.BatchedPresencePenalizer,
    penaltylib.BatchedRepetitionPenalizer,
)


@dataclass
class Request:
    """What the seams and stock's penalizers read of a request."""

    presence: float = 0.0
    frequency: float = 0.0
    repetition: float = 1.0
    min_new_tokens: int = 0
    output_ids: list[int] = field(default_factory=list)
    eos_token_ids: frozenset[int] = frozenset({11})

    def __post_init__(self) -> None:
        self.sampling_params = SimpleNamespace(
            presence_penalty=self.presence,
            frequency_penalty=self.frequency,
            repetition_penalty=self.repetition,
            min_new_tokens=self.min_new_tokens,
            stop_token_ids={3},
        )
        self.tokenizer = SimpleNamespace(additional_stop_token_ids=None, eos_token_id=11)


@dataclass
class Batch:
    """What stock's penalizers read of a batch."""

    reqs: list[Request]
    device: str = "cpu"


def token_by_token(req: Request, rows: torch.Tensor, drafts: list[int]) -> torch.Tensor:
    """Each row after the drafts before it, by stock's penalizers for one request: additive first, then repetition."""
    batch = Batch([req])
    stock = penaltylib.BatchedPenalizerOrchestrator(VOCABULARY, batch, ALL)
    wanted = []
    for token in req.output_ids:
        stock.cumulate_output_tokens(torch.tensor([token]))
    for row, after in zip(rows, [*drafts, None], strict=True):
        logits = row[None].clone()
        stock.accumulate_additive_penalties(logits)
        scaling = stock.accumulate_scaling_penalties()
        if scaling is not None:
            logits = torch.where(logits < 0, logits * scaling, logits / scaling)
        wanted.append(logits[0])
        if after is not None:
            stock.cumulate_output_tokens(torch.tensor([after]))
    return torch.stack(wanted)


REQUESTS = [
    Request(),
    Request(presence=0.7, output_ids=[1, 2, 2]),
    Request(frequency=0.4, output_ids=[5, 5, 5, 0]),
    Request(repetition=1.5, output_ids=[4]),
    Request(presence=-0.5, frequency=0.2, repetition=0.8, output_ids=[7, 8, 9]),
    Request(min_new_tokens=5, output_ids=[1, 2]),
    Request(min_new_tokens=2, repetition=1.2, output_ids=[1, 2, 3]),
]


def test_each_row_of_a_block_is_penalised_as_token_by_token() -> None:
    make = torch.Generator().manual_seed(3)
    width = 5
    rows = 4 * torch.randn(len(REQUESTS), width, VOCABULARY, generator=make)
    block = torch.randint(0, VOCABULARY, (len(REQUESTS), width), generator=make)
    block[1, 1:] = torch.tensor([2, 6, 6, 2])  # a draft that was generated before, and one that repeats
    wanted = torch.stack(
        [token_by_token(req, rows[i], block[i, 1:].tolist()) for i, req in enumerate(REQUESTS)]
    )
    found = rows.reshape(-1, VOCABULARY).clone()
    spec_penalties.penalise_block(REQUESTS, found, block)
    torch.testing.assert_close(found.view_as(rows), wanted, rtol=1e-5, atol=1e-5)
    assert not torch.equal(wanted[1], rows[1])
    # Stop tokens are held back in the rows that are too early: after 2, 3 and 4 tokens, not after 5.
    assert torch.isneginf(found.view_as(rows)[5, :, [3, 11]]).all(1).tolist() == [True] * 3 + [False] * 2


def test_counts_go_on_from_the_last_step() -> None:
    req = Request(frequency=1.0, output_ids=[1])
    block = torch.tensor([[1, 4]])
    for tokens, expected in (([1], -1.0), ([1, 1, 2], -2.0), ([2], 0.0)):  # the last: it was started anew
        req.output_ids = tokens
        logits = torch.zeros(2, VOCABULARY)
        spec_penalties.penalise_block([req], logits, block)
        assert logits[0, 1] == expected
        assert logits[1, 4] == -1.0


def test_who_is_asked() -> None:
    assert [penalties.wanted([req]) for req in REQUESTS] == [False, True, True, True, True, True, True]


def test_additive_penalties_come_first_whatever_the_order_of_the_classes() -> None:
    """A logit of 2 with a presence penalty of 1 and a repetition penalty of 2 becomes (2 - 1) / 2, not 2 / 2 - 1."""
    req = Request(presence=1.0, repetition=2.0, output_ids=[4])
    for classes in (ALL, ALL[::-1]):
        batch = Batch([req])
        stock = penaltylib.BatchedPenalizerOrchestrator(VOCABULARY, batch, classes)
        stock.cumulate_output_tokens(torch.tensor([4]))
        logits = torch.full((1, VOCABULARY), 2.0)
        original = penaltylib.BatchedPenalizerOrchestrator.apply
        penalties._in_order(original, stock, logits)
        assert logits[0, 4] == 0.5
        assert logits[0, 5] == 2.0


def test_counting_waits_for_the_copy_where_steps_overlap() -> None:
    counted: list[object] = []
    for overlap, expected in ((False, 1), (True, 0)):
        counted.clear()
        info = SimpleNamespace()
        batch = SimpleNamespace(enable_overlap=overlap, sampling_info=info)
        penalties._later(counted.append, batch)
        assert len(counted) == expected
        for _ in range(2):  # the second copy of a step counts nothing
            assert penalties._count_now(lambda given: given, info) is info
        assert counted == [batch]


@pytest.mark.parametrize(
    ("decode", "pending", "req", "waits"),
    [(True, 1, 1, True), (True, 1, 0, False), (True, 0, 1, False), (False, 1, 1, False)],
)
def test_a_penalised_batch_waits_for_the_step_before(
    decode: bool, pending: int, req: int, waits: bool
) -> None:
    mode = SimpleNamespace(is_decode=lambda: decode)
    batch = SimpleNamespace(forward_mode=mode, reqs=[REQUESTS[req]])
    scheduler = SimpleNamespace(result_queue=[None] * pending)
    assert penalties._in_turn(lambda *_: False, scheduler, batch, None) is waits
    assert penalties._in_turn(lambda *_: True, scheduler, batch, None) is True
    assert penalties._in_turn(lambda *_: False, scheduler, None, None) is False
