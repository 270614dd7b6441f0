"""Replays against loops written out by hand, brute force, the recorder's own model, and the bar on shipped traces."""

import importlib.util
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penny_spec.adaptive import (
    Confidence,
    Ema,
    Fixed,
    Record,
    Slots,
    StepCost,
    Trace,
    compare,
    read_trace,
    replay,
    served,
)

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
COST = StepCost(10.0, 1.0)


def trace(
    accepted: list[int], widest: int = 3, every: bool = False, requests: list[int] | None = None
) -> Trace:
    numbers = requests or [0] * len(accepted)
    return Trace(
        tuple(Record(n, widest, a, 0.5, 1) for n, a in zip(numbers, accepted, strict=True)),
        every_position=every,
    )


def test_recorded_steps_by_hand() -> None:
    found = compare(trace([3, 0, 1]), [], COST)
    # Width 1: 2 + 1 + 2 tokens in 33 ms; 2: 3 + 1 + 2 in 36; 3: 4 + 1 + 2 in 39.
    assert [(one.tokens, one.milliseconds) for one in found.fixed] == [(5, 33.0), (6, 36.0), (7, 39.0)]
    assert found.best_fixed.name == "fixed-3"
    # The oracle takes 3, 1, 1: 4 + 1 + 2 tokens in 13 + 11 + 11 ms.
    assert (found.oracle.tokens, found.oracle.milliseconds, found.oracle.switches) == (7, 35.0, 1)
    assert found.of_best_fixed(found.oracle) == pytest.approx(39 / 35)
    assert found.oracle.rate == pytest.approx(200.0)


def test_every_position_by_hand() -> None:
    # Two texts of 4 and 2 tokens. Width 3 starts at 0 (3 accepted: all 4 tokens), then at 4 (0), 5 (cut at the end).
    dense = trace([3, 2, 1, 0, 0, 3], every=True, requests=[0, 0, 0, 0, 1, 1])
    wide, narrow = (replay(dense, Fixed(width), COST) for width in (3, 1))
    assert (wide.tokens, wide.steps, wide.milliseconds) == (6, 3, 39.0)
    # Width 1: at 0 (1), 2 (1), 4 (0), 5.
    assert (narrow.tokens, narrow.steps, narrow.milliseconds) == (6, 4, 44.0)
    assert [record.accepted for record in served(dense, 3).records] == [3, 0, 3]
    assert [record.accepted for record in served(dense, 1).records] == [1, 1, 0, 1]
    assert [record.request for record in served(dense, 1).records] == [0, 0, 1, 1]


def test_a_policy_sees_the_steps_it_chose() -> None:
    # Candidates 1 and 3, decided at every step from the last count alone: down at or below 0.25, up above 0.5.
    policy = Ema(Slots(((1, (1, 3)),)), launch=3, alpha=1.0, interval=1, warmup=0)
    found = replay(trace([0, 3, 3, 0, 0]), policy, COST)
    # Widths 3, 1 (after 0), 3 (after 1 of 1), 3 (after 3), 1 (after 0).
    assert found.widths == {1: 2, 3: 3}
    assert found.switches == 3
    assert found.tokens == 1 + 2 + 4 + 1 + 1


def test_forwards_of_a_batch_stand_together() -> None:
    pair = [Record(0, 3, 3, 0.5, 2), Record(1, 3, 1, 0.5, 2), Record(1, 3, 2, 0.5, 1)]
    found = compare(Trace(tuple(pair)), [Ema(Slots(((1, (1,)), (2, (2,)))), launch=1)], COST)
    assert (found.fixed[2].tokens, found.fixed[2].milliseconds) == (6 + 3, 26.0)
    # Batch 2 at width 2: 2 + 1 accepted and 2; then alone at width 1.
    assert (found.policies[0].tokens, found.policies[0].milliseconds) == (5 + 2, 23.0)
    for wrong in (pair[:1], [pair[0], pair[0]], [pair[0], pair[2]]):
        with pytest.raises(ValueError, match="write the lines of one forward together"):
            replay(Trace(tuple(wrong)), Fixed(1), COST)


def brute_shortest(accepted: list[int], widest: int, cost: StepCost) -> float:
    def from_here(index: int) -> float:
        if index >= len(accepted):
            return 0.0
        return min(cost(w) + from_here(index + 1 + min(accepted[index], w)) for w in range(1, widest + 1))

    return from_here(0)


@settings(max_examples=60, deadline=None)
@given(
    accepted=st.lists(st.integers(0, 3), min_size=1, max_size=6),
    cost=st.sampled_from([COST, StepCost(1.0, 1.2), StepCost(1.0, 0.0)]),
)
@example(accepted=[0, 0, 3], cost=StepCost(1.0, 1.2))  # the best ratio of the last step alone is at width 1
def test_oracle_is_the_best_of_all_choices(accepted: list[int], cost: StepCost) -> None:
    dense = compare(trace(accepted, every=True), [], cost).oracle
    assert dense.tokens == len(accepted)
    assert dense.milliseconds == pytest.approx(brute_shortest(accepted, 3, cost))
    steps = compare(trace(accepted), [], cost).oracle
    rates = [
        sum(1 + min(a, w) for a, w in zip(accepted, widths, strict=True)) / sum(cost(w) for w in widths)
        for widths in itertools.product((1, 2, 3), repeat=len(accepted))
    ]
    assert steps.rate == pytest.approx(1000 * max(rates))


def test_a_trace_of_several_widths_is_refused() -> None:
    mixed = Trace((Record(0, 7, 3, 0.5, 1), Record(0, 3, 3, 0.5, 1)))
    with pytest.raises(
        ValueError, match=r"Step 2 was recorded at width 3 and another at 7.*widest width throughout"
    ):
        replay(mixed, Fixed(3), COST)


def test_a_policy_wider_than_the_trace_is_refused() -> None:
    with pytest.raises(ValueError, match="may draft 15 tokens and the trace was recorded at width 3"):
        replay(trace([1]), Ema(Slots(((1, (3, 15)),))), COST)
    with pytest.raises(ValueError, match="Record every position"):
        served(trace([1]), 1)
    with pytest.raises(ValueError, match="one request at a time"):
        replay(Trace((Record(0, 3, 1, 0.5, 2),), every_position=True), Fixed(1), COST)


# ---- recorded texts


def shipped(name: str) -> Trace:
    path = BENCHMARKS / "traces" / f"{name}.jsonl"
    if not path.is_file():
        pytest.skip("the recorded traces are only in the repository")
    assert path.stat().st_size < 300_000
    return read_trace(path)


@pytest.mark.parametrize("name", ["code", "prose", "mixed"])
def test_both_policies_reach_the_bar(name: str) -> None:
    whole = shipped(name)
    found = compare(whole, [Ema(), Confidence()], StepCost())
    for outcome in found.policies:
        assert outcome.tokens == len(whole.records)
        assert found.of_best_fixed(outcome) >= 0.95
        assert found.of_best_fixed(outcome) > 1.0 or name != "mixed"
        assert outcome.rate < found.oracle.rate


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("name", ["code", "prose"])
def test_both_policies_reach_the_bar_at_one_temperature(name: str, temperature: int) -> None:
    whole = shipped(name)
    requests = whole.origin["requests"]
    alone = whole.only(lambda number: requests[number]["temperature"] == temperature)
    found = compare(alone, [Ema(), Confidence()], StepCost())
    assert found.best_fixed.name == ("fixed-7" if temperature == 0 else "fixed-2")
    assert all(found.of_best_fixed(outcome) >= 0.95 for outcome in found.policies)


def recorder() -> Any:
    spec = importlib.util.spec_from_file_location("record_traces", BENCHMARKS / "record_traces.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_recorder_agrees_with_the_checkpoints_own_measurement() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("penny_models.training.nextn.acceptance")
    from penny_models import tiny
    from penny_models.training.nextn.acceptance import drafts_of, walk
    from penny_models.training.nextn.train import read_model
    from penny_models.training.recipes import recipe

    record_traces = recorder()
    record_traces.NEW = 60
    made = recipe("tiny-27b")
    made.use_kernels()
    model = read_model(tiny.path("tiny-27b"), made, torch.device("cpu")).eval()
    stream = torch.tensor(([17, 300, 42, 1000, 42, 300, 8] * 40)[:230])
    plan = [("code", 0), ("code", 1)]
    trace = record_traces.record(model, {"code": stream}, plan, 3, "first")
    generator = torch.Generator().manual_seed(3)
    prompts = torch.cat([record_traces.slices(stream, 1, 128, generator) for _ in plan])
    text = record_traces.continue_prompts(model.base, prompts, 60 + 7, torch.tensor([0.0, 1.0]), 3)
    ours = [record.accepted for record in served(trace, 3).records]
    theirs = walk(drafts_of(model, text[:, : 128 + 60 + 3], 2), text[:, : 128 + 60 + 3], 128)
    assert theirs.verified == len(ours)
    assert theirs.accepted.tolist() == [sum(accepted > slot for accepted in ours) for slot in range(3)]
    assert 0 < sum(ours) < 3 * len(ours)
