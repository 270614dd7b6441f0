"""The guard of a server: which calibration it takes, what it tells, and what it warns of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penny_server.errors import PennyError
from penny_server.profiles.rules import Case
from penny_server.profiles.rules.speculation import RULES
from penny_server.serving.live import gauges
from penny_server.sglang.acceptance import ENV, Watch, calibration, unknown
from penny_spec.guard import Guard, Watched

RATES = {"temperature_0": {"code": {"accepted_by_slot": [0.9, 0.9, 0.9]}}}


def written(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def taken(*places: str | None) -> Path | None:
    found = calibration(*places)
    return found[0] if found else None


@pytest.fixture(autouse=True)
def _no_file_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENV, raising=False)


def test_the_nearest_calibration_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, draft, token_map = tmp_path / "model", tmp_path / "draft", tmp_path / "maps" / "some.pt"
    assert calibration(str(token_map), str(draft), str(model)) is None

    results = {"held_out": {"model": {"nextn_acceptance": RATES}}}
    file = written(model / "results.json", results)
    found = calibration(str(token_map), str(draft), str(model))
    assert found is not None
    assert found[0] == file
    assert found[1].groups == {"temperature_0/code": (0.9, 0.9, 0.9)}

    written(draft / "results.json", {"name": "a draft that nobody measured"})
    assert taken(None, str(draft), str(model)) == file
    file = written(draft / "results.json", {"acceptance": RATES})
    assert taken(str(token_map), str(draft), str(model)) == file

    file = written(tmp_path / "maps" / "some.manifest.json", {"acceptance": RATES})
    assert taken(str(token_map), str(draft), str(model)) == file

    file = written(tmp_path / "mine.json", {"acceptance": RATES})
    monkeypatch.setenv(ENV, str(file))
    assert taken(str(token_map), str(draft), str(model)) == file


class Kept:
    def __init__(self) -> None:
        self.seen: list[tuple[int, int, str]] = []

    def verified(self, verifies: int, accepted: int, state: Watched) -> None:
        self.seen.append((verifies, accepted, state.alarm))


def test_a_draft_of_which_nothing_is_accepted_is_warned_of_once_as_low_and_once_as_stuck() -> None:
    """Nothing is known of the draft, so acceptance of 0.2 is still healthy, less the guard's margin of 0.3 and cut to
    half for the test: 0.07. A run without any is impossible, at 1 % over 100,000 verifications and three tests, from
    ln(3e7) / -ln(1 - 0.07) = 237.2 on: the 238th."""
    kept, warned = Kept(), []
    watch = Watch(Guard(unknown(3)), kept, warned.append)
    for number in range(250):
        watch.observe(3, [(number, 0)])
    assert [alarm for _, _, alarm in kept.seen].index("pinned") == 237
    assert len(warned) == 2
    assert "far below the expectation since token" in warned[0]
    assert warned[1].startswith("Acceptance is pinned")
    assert kept.seen[0] == (1, 0, "ok")


def test_usual_acceptance_of_several_requests_is_counted_without_a_warning() -> None:
    kept, warned = Kept(), []
    watch = Watch(Guard(unknown(3)), kept, warned.append)
    for _ in range(2000):
        watch.observe(3, [(1, 3), (2, 1), (3, 0)])
    assert warned == []
    assert kept.seen == [(3, 4, "ok")] * 2000
    assert watch.state.length == pytest.approx(1 + 4 / 3, abs=0.01)
    watch.observe(3, [])
    assert len(kept.seen) == 2000


def test_the_option_takes_a_file_with_rates_only(tmp_path: Path) -> None:
    def check(path: Path) -> None:
        for rule in RULES:
            rule(Case({}, {"acceptance": str(path)}, "cpu", None))

    check(written(tmp_path / "good.json", {"acceptance": RATES}))
    with pytest.raises(PennyError, match="has no acceptance rates"):
        check(written(tmp_path / "other.json", {"acceptance": "good"}))
    with pytest.raises(PennyError, match="cannot be used"):
        check(tmp_path / "missing.json")


def test_an_alarm_of_any_kind_is_read_from_the_page_of_metrics() -> None:
    page = (
        "# TYPE penny_spec_alarm gauge\n"
        'penny_spec_alarm{kind="low"} 0.0\n'
        'penny_spec_alarm{kind="pinned"} 1.0\n'
    )
    assert gauges(page) == {"penny_spec_alarm": 1.0}
