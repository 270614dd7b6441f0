"""Width policies against cases worked by hand and against stock SGLang's adaptive steps."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penny_spec.adaptive import Confidence, Ema, Fixed, Slots, Step, StepCost
from penny_spec.adaptive.confidence import ConfidenceSlot
from penny_spec.adaptive.ema import EmaSlot
from penny_spec.adaptive.survival import Survival

ALONE = Slots(((1, (3, 7)),))


def step(width: int, *accepted: int, top1: float = 0.5) -> Step:
    return Step(width, accepted, (top1,) * len(accepted))


# ---- the mean


def test_ema_by_hand() -> None:
    policy = Ema(Slots(((1, (1, 3)),)), launch=3, alpha=0.5, interval=1, warmup=0)
    state = policy.start()
    assert state == (EmaSlot(3, 2.0),)
    widths, means = [], []
    # Down at or below 1 - 0.5 - 0.25 = 0.25; up above 1 - 0.5 = 0.5.
    for accepted in (0, 0, 0, 1):
        state = policy.observe(state, step(policy.width(state, 1), accepted))
        widths.append(policy.width(state, 1))
        means.append(state[0].mean)
    assert means == [1.0, 0.5, 0.25, 0.625]
    assert widths == [3, 3, 1, 3]


def test_ema_does_not_go_down_and_up_in_one_decision() -> None:
    policy = Ema(ALONE, alpha=1.0, interval=1, warmup=0, down=0.0, up=-1.0)
    state = policy.observe(policy.start(), step(7, 2))
    assert policy.width(state, 1) == 3  # 2 is at most 3 - 0.5, and above 3 - 1.5
    assert policy.width(policy.observe(state, step(3, 2)), 1) == 7


def test_ema_decides_after_the_warmup_and_then_at_intervals() -> None:
    policy = Ema(ALONE, alpha=1.0, interval=5, warmup=10)
    state, widths = policy.start(), []
    for _ in range(16):
        state = policy.observe(state, step(7, 0))
        widths.append(policy.width(state, 1))
    assert widths == [7] * 14 + [3] * 2


def test_ema_has_a_mean_for_each_batch_size() -> None:
    policy = Ema(Slots(((1, (3, 7)), (2, (1, 3)))), launch=7, alpha=1.0, interval=1, warmup=0)
    state = policy.start()
    # 7 is no candidate of the second slot: the middle one of (1, 3) is 3.
    assert [policy.width(state, size) for size in (1, 2, 64)] == [7, 3, 3]
    state = policy.observe(state, step(3, 0, 1, 0))
    assert state[1].mean == pytest.approx(1 / 3)
    assert [policy.width(state, size) for size in (1, 2)] == [7, 3]
    state = policy.observe(state, step(3, 0, 0, 0))
    assert [policy.width(state, size) for size in (1, 2)] == [7, 1]


@settings(max_examples=40, deadline=None)
@given(
    candidates=st.sets(st.integers(1, 12), min_size=1, max_size=4),
    launch=st.integers(1, 12),
    down=st.sampled_from([-0.5, -0.25, 0.0]),
    up=st.sampled_from([-0.25, 0.0, 0.5]),
    draws=st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=3), max_size=60),
)
def test_ema_is_stocks(
    candidates: set[int], launch: int, down: float, up: float, draws: list[list[float]]
) -> None:
    stock = pytest.importorskip("sglang.srt.speculative.adaptive_spec_params")
    widths = tuple(sorted(candidates))
    policy = Ema(Slots(((1, widths),)), launch=launch, down=down, up=up)
    theirs = stock.AdaptiveStepSlot(
        launch, {"candidate_steps": list(widths), "down_hysteresis": down, "up_hysteresis": up}
    )
    state = policy.start()
    assert policy.width(state, 1) == theirs.current_steps
    for draw in draws:
        width = policy.width(state, 1)
        accepted = [round(part * width) for part in draw]
        state = policy.observe(state, step(width, *accepted))
        theirs.update(accepted)
        assert policy.width(state, len(draw)) == theirs.current_steps
        assert state[0].mean == pytest.approx(theirs.ema_accept_len, abs=1e-12)


# ---- the confidence policy


def test_survival_by_hand() -> None:
    found = Survival.unknown(3).observe(3, 3, 0.05).observe(1, 3, 0.05)
    assert found.shares == (1.0, 0.5, 0.5)
    # The third chain weighs 1/3, or alpha if that is more.
    assert found.observe(0, 3, 0.05).shares == pytest.approx((2 / 3, 1 / 3, 1 / 3))
    assert found.observe(0, 3, 0.5).shares == (0.5, 0.25, 0.25)
    assert [found.expected(width, 0.9) for width in (1, 2, 3)] == [1.0, 1.5, 2.0]
    # Beyond: hazard 0.5 / 0.5 = 1, times 0.9; 2 + 0.5 * 0.9 + 0.5 * 0.81.
    assert found.expected(5, 0.9) == pytest.approx(2.855)


def test_survival_beyond_one_position_takes_its_own_share() -> None:
    found = Survival.unknown(4).observe(1, 1, 0.05).observe(0, 1, 0.05)
    # 0.5 + 0.5 * (0.5 * 0.8) + 0.5 * (0.5 * 0.8) ** 2
    assert found.expected(3, 0.8) == pytest.approx(0.5 + 0.2 + 0.08)


def test_survival_downward_is_the_mean_of_the_smaller() -> None:
    chains = [7, 0, 3, 3, 5, 1, 7, 2, 0, 4]
    found = Survival.unknown(7)
    for accepted in chains:
        found = found.observe(accepted, 7, 0.05)
    for width in range(1, 8):
        assert found.expected(width, 0.9) == pytest.approx(sum(min(a, width) for a in chains) / len(chains))


def test_a_narrow_forward_teaches_only_its_positions() -> None:
    found = Survival.unknown(4).observe(4, 4, 0.05).observe(2, 2, 0.05)
    assert found.seen == (2, 2, 1, 1)
    assert found.forget_above(2) == Survival((1.0, 1.0, 0.0, 0.0), (2, 2, 0, 0))
    with pytest.raises(ValueError, match="observe one verification first"):
        Survival.unknown(4).expected(2, 0.9)


NOW = {"warmup": 0, "interval": 1}


def test_confidence_goes_up_by_the_hazard_at_the_boundary() -> None:
    # All of 3: E(7) = 3 + 0.9 + 0.81 + 0.729 + 0.6561 = 6.0951; (7.0951 / 14.64) / (4 / 11.84) = 1.4345.
    for up_margin, width in ((0.43, 7), (0.44, 3)):
        policy = Confidence(ALONE, launch=3, up_margin=up_margin, **NOW)  # type: ignore[arg-type]
        state = policy.observe(policy.start(), step(3, 3))
        assert policy.expected(state[0], 7) == pytest.approx(6.0951)
        assert policy.width(state, 1) == width


def test_confidence_goes_down_by_what_it_saw() -> None:
    # One of 7: E(3) = E(7) = 1; (2 / 11.84) / (2 / 14.64) = 1.2365.
    for margin, width in ((0.23, 3), (0.24, 7)):
        policy = Confidence(ALONE, margin=margin, **NOW)  # type: ignore[arg-type]
        assert policy.width(policy.observe(policy.start(), step(7, 1)), 1) == width


def test_confidence_reads_the_cost_of_a_step() -> None:
    # Free drafts: 7 is never worse than 3.
    policy = Confidence(ALONE, cost=StepCost(10.0, 0.0), **NOW)  # type: ignore[arg-type]
    assert policy.width(policy.observe(policy.start(), step(7, 1)), 1) == 7


def test_confidence_of_the_newest_chains_counts() -> None:
    policy = Confidence(ALONE, window=2, warmup=100)
    state = policy.observe(policy.start(), step(7, 7, top1=0.9995))
    state = policy.observe(state, step(7, 1, top1=0.5))
    assert policy.expected(state[0], 7) == 4.0  # one chain of each bucket
    state = policy.observe(state, step(7, 5, top1=0.999))  # 0.999 itself is in the highest bucket
    assert policy.expected(state[0], 7) == (1.0 + 6.0) / 2
    state = policy.observe(state, step(7, 6, top1=0.9991))
    assert policy.expected(state[0], 7) == 6.0  # buckets hold 1 and (7 + 5 + 6) / 3; the newest two are high


def test_going_back_soon_doubles_the_grace() -> None:
    policy = Confidence(ALONE, alpha=1.0, grace=3, window=1, **NOW)  # type: ignore[arg-type]
    state = policy.observe(policy.start(), step(7, 0))
    widths = [policy.width(state, 1)]
    graces = [state[0].grace]
    for _ in range(9):
        width = policy.width(state, 1)
        state = policy.observe(state, step(width, width if width == 3 else 0))
        widths.append(policy.width(state, 1))
        graces.append(state[0].grace)
    # Down at once; up after 3; that is going back, so down only after 6.
    assert widths == [3, 3, 3, 7, 7, 7, 7, 7, 7, 3]
    assert graces == [3, 3, 3, 6, 6, 6, 6, 6, 6, 12]


def test_going_back_late_returns_to_the_first_grace() -> None:
    policy = Confidence(ALONE, alpha=1.0, grace=3, window=1, **NOW)  # type: ignore[arg-type]
    slot = policy.start()[0]
    late = replace(slot, since=25, grace=12, rising=True)
    assert policy.observe((late,), step(7, 0))[0].grace == 3
    assert policy.observe((replace(late, since=23),), step(7, 0))[0].grace == 24


def test_a_forward_that_began_before_the_switch_does_not_teach_too_much() -> None:
    policy = Confidence(ALONE, **NOW)  # type: ignore[arg-type]
    state = policy.observe(policy.start(), step(7, 0))
    assert policy.width(state, 1) == 3
    late = policy.observe(state, step(7, 7))  # was in flight at 7
    assert late[0].chains[0].seen == (2, 2, 2, 1, 1, 1, 1)
    assert isinstance(late[0], ConfidenceSlot)


# ---- both


@pytest.mark.parametrize("policy", [Ema(), Confidence(), Fixed(4)])
def test_policies_change_no_state(policy: Ema | Confidence | Fixed) -> None:
    state = policy.start()
    before = repr(state)
    again = [policy.observe(state, step(7, 0)) for _ in range(2)]  # type: ignore[arg-type, func-returns-value]
    assert repr(state) == before
    assert again[0] == again[1]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Slots(()), "no floors"),
        (lambda: Slots(((2, (3,)), (1, (3,)))), "no floors"),
        (lambda: Slots(((1, (0, 3)),)), "each at least 1"),
        (lambda: Slots(((1, (7, 3)),)), "rising"),
        (lambda: Ema(alpha=0.0), "above 0"),
        (lambda: Confidence(edges=(0.9, 0.8)), "no buckets"),
        (lambda: Confidence(window=0), "at least 1"),
        (lambda: StepCost(0.0, 1.0), "above 0"),
        (lambda: Step(3, (4,), (0.5,)), "between 0 and the width"),
        (lambda: Step(3, (1, 2), (0.5,)), "one of each"),
        (lambda: Step(3, (), ()), "one of each"),
        (lambda: Step(3, (1,), (1.5,)), "between 0 and 1"),
    ],
)
def test_wrong_constants_are_refused(make: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()  # type: ignore[operator]
