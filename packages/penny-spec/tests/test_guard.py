"""The guard against cases worked by hand, its closed form over many servers, its promise, and recorded texts."""

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penny_spec.adaptive import read_trace, served
from penny_spec.guard import Expectation, Guard, Watched
from penny_spec.guard.scores import all_score, low_scores
from penny_spec.guard.simulate import draw, first_alarms

HALF = Expectation({"one": (0.5,)})
RATES = st.lists(st.floats(0.0, 0.95), min_size=1, max_size=5)
TRACES = Path(__file__).parents[1] / "benchmarks" / "traces"


def tiny_results(name: str) -> Path:
    tiny = pytest.importorskip("penny_models.tiny")
    return Path(tiny.path(name)) / "results.json"


# ---- the expectation


def test_edges_of_the_range_by_hand() -> None:
    # Accepted up to each position: (0.9, 0.45) and (0.8, 0.6).
    both = Expectation({"a": (0.9, 0.5), "b": (0.8, 0.75)})
    assert both.lowest == pytest.approx((0.8, 0.45 / 0.8))
    assert both.highest == pytest.approx((0.9, 0.6 / 0.9))
    assert both.only("a").highest == pytest.approx((0.9, 0.5))
    with pytest.raises(ValueError, match="there are a, b"):
        both.only("c")


def test_reads_results_of_a_checkpoint() -> None:
    found = Expectation.read(tiny_results("tiny-next"))
    assert sorted(found.groups) == [
        f"temperature_{t}/{kind}" for t in (0, 1) for kind in ("chat", "code", "prose")
    ]
    assert found.groups["temperature_1/prose"][0] == pytest.approx(0.352, abs=5e-4)
    assert found.lowest[0] == found.groups["temperature_1/prose"][0]
    assert Expectation.read(tiny_results("tiny-27b-dflash2")).positions == 7


@pytest.mark.parametrize("place", [("acceptance",), ("nextn_acceptance",)])
def test_reads_a_manifest(tmp_path: Path, place: tuple[str]) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"rows": 3, place[0]: {"zh": {"accepted_by_slot": [0.5, 1]}, "prompts": 3}}))
    assert Expectation.read(path).groups == {"zh": (0.5, 1.0)}
    path.write_text(json.dumps({place[0]: {"accepted_by_slot": [0.5]}}))
    assert Expectation.read(path).groups == {"all": (0.5,)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is no JSON"),
        ("[]", "has no acceptance rates"),
        ('{"acceptance": {}}', "has no acceptance rates"),
        ('{"acceptance": {"a": {"accepted_by_slot": "x"}}}', "expected a list of numbers"),
        ('{"acceptance": {"a": {"accepted_by_slot": [true]}}}', "expected a list of numbers"),
        ('{"acceptance": {"a": {"accepted_by_slot": [1.2]}}}', "between 0 and 1"),
        ('{"acceptance": {"a": {"accepted_by_slot": []}}}', "between 0 and 1"),
        ('{"acceptance": {"a": {"accepted_by_slot": [0.0, 0.5]}}}', "no fall can be seen"),
        ('{"acceptance": {"a": {"accepted_by_slot": [NaN]}}}', "between 0 and 1"),
        (
            '{"acceptance": {"a": {"accepted_by_slot": [0.5]}, "b": {"accepted_by_slot": [0.5, 0.5]}}}',
            "same number",
        ),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=says):
        Expectation.read(path)


# ---- scores and alarms by hand


def test_scores_by_hand() -> None:
    assert low_scores([0.5], 0.5) == pytest.approx((math.log(0.75 / 0.5), math.log(0.5)))
    # One of two: ln 0.5 + ln(0.8 / 0.6); two of two: 2 ln 0.5.
    scores = low_scores([0.5, 0.4], 0.5)
    assert scores == pytest.approx((math.log(1.5), math.log(0.5 * 0.8 / 0.6), math.log(0.25)))
    assert all_score([0.5, 0.25]) == pytest.approx(math.log(8))


@given(rates=RATES, cut=st.floats(0.05, 0.95))
def test_scores_never_rise_and_their_mean_exponential_is_at_most_one(rates: list[float], cut: float) -> None:
    scores = low_scores(rates, cut)
    assert all(later <= earlier for earlier, later in pairwise(scores))
    reached = [1.0, *np.cumprod(rates), 0.0]
    mean = sum((reached[k] - reached[k + 1]) * math.exp(score) for k, score in enumerate(scores))
    assert mean <= 1.0 + 1e-9


def feed(guard: Guard, accepted: list[int], width: int = 1, requests: int = 1000) -> Watched:
    state = guard.start()
    for index, count in enumerate(accepted):
        state = guard.observe(state, count, width, index // requests)
    return state


def test_nothing_accepted_is_low_and_then_pinned() -> None:
    # Threshold ln(3 * 100000 / 0.01) = 17.2167. Lower edge 0.5 * 0.7 = 0.35, cut 0.175.
    # Low: ln(0.825 / 0.65) = 0.23841 a verification, 73 of them; pinned: -ln(0.825) = 0.19237, 90 of them.
    guard = Guard(HALF)
    assert guard.threshold == pytest.approx(17.2167, abs=1e-4)
    assert [feed(guard, [0] * n).alarm for n in (72, 73, 89, 90)] == ["ok", "low", "low", "pinned"]
    state = feed(guard, [0] * 100)
    assert (state.alarm_verifies, state.alarm_tokens, state.length) == (73, 73, 1.0)


def test_everything_accepted_is_pinned_only_over_several_requests() -> None:
    # Upper edge 1 - 0.5 * 0.7 = 0.65: -ln 0.65 = 0.43078, 40 verifications.
    guard = Guard(HALF)
    assert feed(guard, [1] * 400).alarm == "ok"
    assert [feed(guard, [1] * n, requests=10).alarm for n in (39, 40)] == ["ok", "pinned"]
    assert feed(guard, [1] * 39 + [0] + [1] * 39, requests=10).alarm == "ok"
    assert feed(guard, [1] * 60, requests=20).alarm == "ok"
    assert feed(guard, [1] * 61, requests=20).alarm == "pinned"


def test_one_acceptance_ends_a_run_of_nothing() -> None:
    found = feed(Guard(HALF), [0] * 50 + [1])
    assert (found.none, found.requests) == (0.0, (0,))
    assert found.low == pytest.approx(50 * math.log(0.825 / 0.65) + math.log(0.5))


def test_an_alarm_stays() -> None:
    state = feed(Guard(HALF), [0] * 80 + [1] * 20 + [0, 1] * 500)
    assert state.alarm == "low"
    assert state.alarm_verifies == 73
    assert "far below the expectation since token 73" in Guard(HALF).sentence(state)


def test_narrow_and_wide_verifications() -> None:
    guard = Guard(Expectation({"one": (0.5, 0.5, 0.5)}))
    state = guard.observe(guard.start(), 1, 1, 0)
    assert state.low == 0.0
    assert state.full == pytest.approx(-math.log(0.65))  # one of one was accepted whole
    state = guard.observe(state, 5, 7, 0)  # behind the calibrated 3 positions nothing is read
    assert state.full == pytest.approx(-4 * math.log(0.65))
    assert state.length == pytest.approx((2 + 4) / 2)
    assert state.tokens == 2 + 6
    again = guard.observe(state, 0, 0, 0)
    assert (again.verifies, again.tokens, again.full) == (state.verifies, 9, state.full)
    with pytest.raises(ValueError, match="2 of 1 draft tokens"):
        guard.observe(state, 2, 1, 0)


def test_the_running_length_forgets() -> None:
    guard = Guard(HALF, memory=10)
    state = feed(guard, [0] * 10 + [1])
    assert state.length == pytest.approx(1.0 + 0.1)


def test_sentences_name_what_was_found_and_expected() -> None:
    guard = Guard(Expectation({"a": (0.5, 0.5), "b": (0.9, 0.9)}))
    said = guard.sentence(feed(guard, [2, 0], width=2))
    assert said == "Acceptance length is 2.00; 1.75 to 2.71 are expected over 2 draft positions."
    assert "its length is 1.00" in guard.sentence(feed(guard, [0] * 300, width=2))


@pytest.mark.parametrize(
    ("name", "value"), [("false_alarm", 0.0), ("cut", 1.0), ("margin", 0.0), ("horizon", 0), ("spans", 0)]
)
def test_wrong_constants_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        Guard(HALF, **{name: value})  # type: ignore[arg-type]


# ---- many servers at once


@settings(max_examples=25, deadline=None)
@given(
    rates=st.lists(st.floats(0.05, 0.95), min_size=1, max_size=4),
    true=st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.97, 1.0]), min_size=4, max_size=4),
    seed=st.integers(0, 1000),
)
def test_the_closed_form_is_the_guard(rates: list[float], true: list[float], seed: int) -> None:
    guard = Guard(Expectation({"one": tuple(rates)}), false_alarm=0.5, horizon=50)
    counts = draw(true[: len(rates)], (4, 150), np.random.default_rng(seed))
    found = first_alarms(guard, counts, request_verifies=7)
    for server in range(4):
        state, first = guard.start(), -1
        for index, count in enumerate(counts[server]):
            state = guard.observe(state, int(count), len(rates), index // 7)
            if state.alarm != "ok" and first < 0:
                first = index
        assert first == found.first[server]


def test_the_closed_form_counts_the_requests_of_a_run() -> None:
    # A run from the first verification of the second request of 20: the fifth is its fourth.
    counts = np.array([[1] * 19 + [0] + [1] * 100])
    assert first_alarms(Guard(HALF), counts, request_verifies=20).pinned.tolist() == [80]
    assert [feed(Guard(HALF), counts[0, :n].tolist(), requests=20).alarm for n in (80, 81)] == [
        "ok",
        "pinned",
    ]


def test_draws_have_their_rates() -> None:
    counts = draw((0.5, 0.8), (100, 1000), np.random.default_rng(1))
    assert [float((counts >= k).mean()) for k in (1, 2)] == pytest.approx([0.5, 0.4], abs=0.006)  # 3.8 sigma


def test_false_alarms_keep_their_promise_at_the_edge() -> None:
    # With next to no margin and a promise of one half, servers at the lower edge itself; 0.5 + 3 * sqrt(0.25 / 2000).
    guard = Guard(Expectation({"one": (0.5, 0.5)}), false_alarm=0.5, horizon=200, margin=1e-6)
    counts = draw((0.5, 0.5), (2000, 200), np.random.default_rng(2))
    alarms = first_alarms(guard, counts)
    share = float((alarms.first >= 0).mean())
    assert 0.0 < share <= 0.534
    # A threshold without the number of starts would not keep it.
    careless = Guard(guard.expectation, false_alarm=0.5, horizon=1, margin=1e-6)
    assert float((first_alarms(careless, counts).first >= 0).mean()) > 0.534


def test_no_alarm_on_healthy_mixtures() -> None:
    expectation = Expectation.read(tiny_results("tiny-next"))
    guard = Guard(expectation)
    generator = np.random.default_rng(3)
    each = np.stack([draw(rates, (10, 50_000), generator) for rates in expectation.groups.values()])
    chosen = generator.integers(0, len(each), (10, 500)).repeat(100, axis=1)
    mixed = np.take_along_axis(each, chosen[None], axis=0)[0]
    assert ((mixed + 1).sum(axis=1) > 100_000).all()
    assert (first_alarms(guard, mixed).first < 0).all()
    for counts in each:
        assert (first_alarms(guard, counts[:, :20_000]).first < 0).all()


def test_a_map_of_the_wrong_language_is_found_within_2000_tokens() -> None:
    expectation = Expectation.read(tiny_results("tiny-next"))
    generator = np.random.default_rng(4)
    cases = [(Guard(expectation), rates, 0.06 / 0.57) for rates in expectation.groups.values()]
    cases.append((Guard(Expectation({"zh": (0.57,) * 3})), (0.57,) * 3, 0.06 / 0.57))
    for guard, rates, cut in cases:
        good = draw(rates, (50, 1000), generator)
        bad = draw([rate * cut for rate in rates], (50, 1500), generator)
        first = first_alarms(guard, np.concatenate([good, bad], axis=1)).first
        assert (first >= 1000).all()
        tokens = [int((bad[server, : first[server] - 999] + 1).sum()) for server in range(50)]
        assert max(tokens) <= 2000


# ---- recorded texts


def test_no_alarm_on_recorded_texts() -> None:
    if not TRACES.is_dir():
        pytest.skip("the recorded traces are only in the repository")
    whole = Expectation.read(tiny_results("tiny-27b"))
    for heat, expectation in (
        (0, whole.only("temperature_0/")),
        (1, whole.only("temperature_1/")),
        (None, whole),
    ):
        guard = Guard(expectation)
        state = guard.start()
        most = 0.0
        for number, path in enumerate(sorted(TRACES.glob("*.jsonl"))):
            trace = read_trace(path)
            requests = trace.origin["requests"]
            for record in served(trace, 3).records:
                if heat in (None, requests[record.request]["temperature"]):
                    state = guard.observe(state, record.accepted, record.width, 100 * number + record.request)
                    most = max(most, state.low)
        assert state.tokens > 6_000
        assert state.alarm == "ok"
        assert most < guard.threshold / 2
