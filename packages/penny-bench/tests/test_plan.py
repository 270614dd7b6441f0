"""`penny-bench plan`."""

import json
import sys
from pathlib import Path

import pytest

from penny_bench.cli import main
from penny_bench.compare import plan_comparison
from penny_bench.errors import BenchError
from penny_bench.stats import minimum_effect


def test_a_plan_holds_what_it_promises() -> None:
    plan = plan_comparison(0.03, 0.03, rows=4)
    assert plan.restarts == plan.needed
    assert plan.detectable == minimum_effect(plan.needed, 0.03, 0.05 / 4)
    assert plan.detectable <= 0.03
    assert len(plan.order) == 2 * plan.restarts
    assert plan.needed > plan_comparison(0.03, 0.03).needed


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.json"
    words = ["plan", "--restarts", "5", "--cv", "0.03", "--effect", "0.03", "--json", str(path)]
    monkeypatch.setattr(sys, "argv", ["penny-bench", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1  # 5 restarts are too few
    value = json.loads(path.read_text())
    assert (value["schema"], value["restarts"]) == ("penny-bench/plan/1", 5)
    assert "".join(value["order"]) == "ABBAABBAAB"
    assert value["detectable"] > 0.03
    shown = capsys.readouterr().out
    assert "5 restarts a side are too few" in shown
    assert "  A B B A A B B A\n  A B\n" in shown


def test_refusals() -> None:
    with pytest.raises(BenchError, match="rows is 0"):
        plan_comparison(0.03, 0.03, rows=0)
    with pytest.raises(BenchError, match="restarts is 1"):
        plan_comparison(0.03, 0.03, restarts=1)
    with pytest.raises(BenchError, match="coefficient of variation is 0"):
        plan_comparison(0.0, 0.03)
    # Two pairs, so Cauchy's distribution: a p-value of 0.05 / 1,000 takes a t of 2 / (pi 0.00005) = 12,732.
    with pytest.raises(
        BenchError, match="2 restarts a side with a spread of 1 between them can tell nothing"
    ):
        plan_comparison(1, 1, restarts=2, rows=1000, paired=True)
