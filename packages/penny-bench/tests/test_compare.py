"""Comparisons of result files written by hand."""

import io
import json
import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from penny_bench.compare import (
    METRICS,
    Document,
    Finding,
    Restart,
    Settings,
    Value,
    compare_restarts,
    comparison_document,
    markdown,
    overall,
    print_comparison,
    read_document,
    read_side,
    verdict,
)
from penny_bench.errors import BenchError
from penny_bench.stats import Ratio

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Row:
    """One concurrency of a decode document."""

    values: dict[str, float | None]
    prompt_tokens: float = 100.0
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def row(aggregate: float, ttft: float = 0.1, **changes: Any) -> Row:
    return Row(**{"values": {"aggregate": aggregate, "ttft": ttft}, **changes})


def restart(number: int, rows: dict[int, Row], alike: str = "m", told: str = "3") -> Restart:
    document = Document(
        name=f"{number}.json",
        digest=str(number),
        started=START + timedelta(hours=number),
        model="m",
        workload="decode",
        alike={"the model": alike},
        told={"runs in a restart": told},
        values={
            (f"C{c}", key): Value(METRICS[key], value, c)
            for c, made in rows.items()
            for key, value in made.values.items()
        },
        prompts={f"C{c}": made.prompt_tokens for c, made in rows.items()},
        faults=tuple(Finding(f"C{c}", text) for c, made in rows.items() for text in made.faults),
        notes=tuple(Finding(f"C{c}", text) for c, made in rows.items() for text in made.notes),
    )
    return Restart(document.name, (document,))


def side(rates: list[float], first: int = 0, step: int = 1) -> list[Restart]:
    return [restart(first + step * i, {1: row(rate)}) for i, rate in enumerate(rates)]


RATES = Settings(metrics=("aggregate",))


def test_a_row_by_hand() -> None:
    # Logs of B / A by pair: ln 0.9, ln 0.8, so the ratio is sqrt(0.72); all of 4 sign patterns: p = 2/4.
    made = compare_restarts(
        side([100, 200], 0, 2),
        side([90, 160], 1, 2),
        Settings(metrics=("aggregate",), paired=True, floor={1: 5.0}),
    )
    (only,) = made.rows
    assert (only.a, only.b) == ((100.0, 200.0), (90.0, 160.0))
    assert only.ratio is not None
    assert only.change == pytest.approx(math.sqrt(0.72) - 1)
    assert (only.permutation.p, only.permutation.exact) == (0.5, True)
    # 5 ms a token is 200 tok/s; the geometric mean of A is 141.4 tok/s.
    assert only.floor_a == pytest.approx(math.sqrt(0.5))
    # Two pairs: t = mean / half difference has a Cauchy distribution, p = 1 - 2/pi atan(t).
    t = (math.log(0.9) + math.log(0.8)) / (math.log(0.8) - math.log(0.9))
    assert only.p == pytest.approx(1 - 2 / math.pi * math.atan(abs(t)))
    assert made.verdict == "undecided"
    assert made.notes == ()


def test_floor_counts_streams() -> None:
    a = [restart(i, {8: row(800.0 + i, 0.1 + i)}) for i in range(2)]
    b = [restart(9 + i, {8: row(400.0 + i, 0.1 + i)}) for i in range(2)]
    rows = compare_restarts(a, b, Settings(floor={0: 5.0})).rows
    # 800 tok/s over 8 streams: 10 ms a token, half of the floor's speed. TTFT has no floor.
    assert [rows[0].floor_a, rows[0].floor_b] == pytest.approx([0.5, 0.25], abs=0.001)
    assert rows[1].floor_a is None


@pytest.mark.parametrize(
    ("low", "high", "p", "higher", "word"),
    [
        (1.01, 1.05, 0.01, True, "better"),
        (1.01, 1.05, 0.01, False, "worse"),
        (1.01, 1.02, 0.01, False, "equal"),  # shown, but less than the margin
        (0.90, 0.95, 0.01, True, "worse"),
        (0.90, 0.95, 0.01, False, "better"),
        (0.98, 1.02, 0.5, True, "equal"),
        (0.98, 1.10, 0.5, True, "no worse"),
        (0.90, 1.02, 0.5, False, "no worse"),
        (0.96, 1.02, 0.5, True, "undecided"),
        (0.90, 0.99, 0.06, True, "undecided"),  # shown alone, but not after the correction
    ],
)
def test_verdicts(low: float, high: float, p: float, higher: bool, word: str) -> None:
    ratio = Ratio(math.sqrt(low * high), low, high, p, 6, 0.95, 0.02)
    assert verdict(ratio, p, higher, 0.03, 0.05) == word


def test_overall_verdict() -> None:
    assert overall(["better", "worse", "undecided"]) == "worse"
    assert overall(["better", "undecided", "equal"]) == "undecided"
    assert overall(["better", "equal"]) == "no worse"
    assert overall(["better", "better"]) == "better"
    assert verdict(None, None, True, 0.03, 0.05) == "undecided"


def test_verdicts_of_plain_cases() -> None:
    a = [100.0, 101.0, 99.0, 100.5]
    assert compare_restarts(side(a), side([x * 0.9 for x in a[::-1]], 9), RATES).verdict == "worse"
    assert compare_restarts(side(a), side([x * 1.1 for x in a[::-1]], 9), RATES).verdict == "better"
    assert compare_restarts(side(a), side([x + 0.1 for x in a[::-1]], 9), RATES).verdict == "equal"
    wide = compare_restarts(side(a), side([90.0, 110.0, 97.0, 101.0], 9), RATES)
    assert wide.verdict == "undecided"
    assert "So many restarts with such spreads detect" in markdown(wide)
    alone = compare_restarts(side([100.0]), side([50.0], 9), RATES)
    assert alone.verdict == "undecided"
    assert alone.rows[0].change == pytest.approx(-0.5)


def test_false_alarms_over_a_family_of_rows_stay_at_alpha() -> None:
    rng = np.random.default_rng(11)
    experiments, alarms = 600, 0
    for _ in range(experiments):
        values = np.exp(rng.normal(0, 0.03, (2, 4, 2)))
        a, b = (
            [restart(10 * s + i, {1: row(100 * v[0], 0.1 * v[1])}) for i, v in enumerate(values[s])]
            for s in (0, 1)
        )
        alarms += any(
            r.verdict in ("better", "worse") for r in compare_restarts(a, b, Settings(margin=0.0)).rows
        )
    # 5 % and two standard errors of the simulation; without the correction it would be about 8 %.
    assert alarms / experiments <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / experiments)


@pytest.mark.parametrize(
    ("rows", "alike", "words"),
    [
        ({1: row(1.0)}, "other", r"of decode differ in the model: m \(2\), other \(1\)"),
        ({2: row(1.0)}, "m", "No row was measured in every restart"),
        ({1: row(1.0, faults=("2 failed.",))}, "m", r"9\.json, C1: 2 failed"),
    ],
)
def test_unlike_and_faulty_results_are_refused(rows: dict[int, Row], alike: str, words: str) -> None:
    a, b = side([1.0, 2.0]), [restart(9, rows, alike)]
    with pytest.raises(BenchError, match=words):
        compare_restarts(a, b, RATES)
    if set(rows) == {1}:
        forced = compare_restarts(a, b, replace(RATES, force=True))
        assert any(word in forced.notes[0] for word in ("differ", "2 failed"))


def test_what_is_told_and_not_refused() -> None:
    a = [restart(0, {1: row(1.0), 8: row(5.0)}), restart(1, {1: row(1.1, notes=("10% of a prompt",))})]
    b = [restart(2, {1: row(1.2, prompt_tokens=120.0)}, told="5"), restart(3, {1: row(1.3)})]
    notes = " ".join(compare_restarts(a, b, RATES).notes)
    for words in (
        "left out: decode/C8.",
        "from 100 to 120 tokens",
        "1.json, C1: 10% of a prompt",
        "runs in a restart: 3 (3), 5 (1)",
    ):
        assert words in notes
    assert "did not alternate" in " ".join(compare_restarts(a, b, replace(RATES, paired=True)).notes)


def test_other_refusals() -> None:
    with pytest.raises(BenchError, match="are the same result"):
        compare_restarts(side([1.0, 2.0]), side([1.0, 3.0]), RATES)
    with pytest.raises(BenchError, match="A has 2 restarts and B 3"):
        compare_restarts(side([1.0, 2.0]), side([1.0, 2.0, 3.0], 9), Settings(paired=True))
    with pytest.raises(BenchError, match="do not vary"):
        compare_restarts(side([1.0, 1.0]), side([1.0, 1.0], 9), RATES)
    for value in (None, math.nan):
        nothing = restart(9, {1: row(1.0, values={"aggregate": value, "ttft": 1.0})})
        with pytest.raises(BenchError, match="there is no aggregate"):
            compare_restarts(side([1.0]), [nothing], RATES)
    with pytest.raises(BenchError, match="a floor for 8 streams, but only 1 were measured"):
        compare_restarts(side([1.0]), side([1.0], 9), Settings(floor={8: 1.0}))
    with pytest.raises(
        BenchError, match="No metric matches 'speed'; there are aggregate, ttft, and whole names"
    ):
        compare_restarts(side([1.0]), side([1.0], 9), Settings(metrics=("speed",)))
    for wrong, words in (
        ({"metrics": ("ttft", "ttft")}, "each once"),
        ({"margin": 3.0}, "margin is 3"),
        ({"alpha": 0.0}, "alpha is 0"),
        ({"floor": {1: -1.0}}, "floor is 1=-1"),
    ):
        with pytest.raises(BenchError, match=words):
            Settings(**wrong)  # type: ignore[arg-type]


def test_reports_say_the_same() -> None:
    a = [100.0, 101.0, 99.0, 100.5]
    made = compare_restarts(
        side(a), side([x * 0.9 for x in a[::-1]], 9), Settings(metrics=("aggregate",), floor={1: 8.0})
    )
    out = io.StringIO()
    print_comparison(made, Console(file=out, width=80))
    assert "…" not in out.getvalue()
    for text in (out.getvalue(), markdown(made)):
        assert "B is worse than A at C1 (all)." in " ".join(text.split())
        assert "-10.0" in text
        assert "80 72" in text
    fast = Settings(metrics=("aggregate",), floor={1: 10.0})
    assert "C1 (all): A is faster than the stated floor" in markdown(
        compare_restarts(side([150.0, 151.0]), side([90.0, 91.0], 9), fast)
    )
    # 8 restarts in 70 arrangements, 2 of them as extreme: .029.
    assert "| 0.029 | 80 72 | worse |" in markdown(made)
    value = json.loads(json.dumps(comparison_document(made, "penny-bench compare", "0.1.0"), allow_nan=False))
    assert (value["schema"], value["verdict"], value["exit_status"]) == ("penny-bench/compare/1", "worse", 1)
    assert value["rows"][0]["metric"] == "aggregate"
    assert value["rows"][0]["b"] == pytest.approx([x * 0.9 for x in a[::-1]])
    assert value["settings"]["floor"] == {"1": 8.0}
    assert [f["files"][0]["file"] for f in value["a"]] == ["0.json", "1.json", "2.json", "3.json"]


def test_unreadable_files(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(BenchError, match="Could not read"):
        read_document(path)
    with pytest.raises(BenchError, match=r"no \*\.json in the folder"):
        read_side(str(tmp_path))
    for text, words in (
        ("{", "is not JSON"),
        ("[]", "has the schema None"),
        ('{"schema": "other/1"}', "has the schema 'other/1'"),
        ('{"schema": "penny-bench/decode/1", "plan": {}}', "lacks or garbles"),
        ('{"schema": "penny-bench/decode/1", "plan": []}', "lacks or garbles"),
    ):
        path.write_text(text)
        with pytest.raises(BenchError, match=words):
            read_document(path)
