"""What comparisons read: documents of decode and run, folders of restarts, and which rows come of them."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from penny_bench.compare import (
    Settings,
    compare_restarts,
    comparison_document,
    markdown,
    read_document,
    read_side,
)
from penny_bench.errors import BenchError

RATE = {"key": "aggregate", "label": "decode, all", "unit": "tok/s", "better": "higher"}
TTFT = {"key": "ttft", "label": "TTFT", "unit": "s", "better": "lower"}
SCORE = {"key": "score", "label": "score", "unit": "", "better": "higher"}
TOKENS = {"key": "output", "label": "output", "unit": "tokens", "better": None}


def metric(
    kind: dict[str, Any], value: float, phase: str | None = "C4", share: float | None = None
) -> dict[str, Any]:
    return {"phase": phase, **kind, "value": value, "n": 3, "floor": share and 1.0, "share": share}


def run_document(metrics: list[dict[str, Any]], hour: int = 0, **changes: Any) -> dict[str, Any]:
    summary = {"requests": 12, "succeeded": 12, "errors": {}, "input_tokens": 1200}
    return {
        "schema": "penny-bench/run/1",
        "status": "complete",
        "started": f"2026-01-01T{hour:02}:00:00.000+00:00",
        "versions": {"penny_bench": "0.2.0", "python": "3.11.7"},
        "machine": {"cpu": "x", "gpus": [{"name": "NVIDIA RTX PRO 6000"}]},
        "server": {"url": "http://127.0.0.1/v1", "model": "m", "extensions": True},
        "workload": {"name": "short", "title": "Short", "version": 1, "digest": "abc", "kind": "streams"},
        "plan": {"tokens": 64, "seed": hour, "cached_limit": 32},
        "summary": summary,
        "cache": {"verdict": "clean", "most": 0},
        "phases": [{"name": "C4", "label": "4 streams", "streams": 4, "summary": summary}],
        "metrics": metrics,
        "checks": None,
        "earlier": [],
        "imported": None,
        **changes,
    }


def decode_document(**changes: Any) -> dict[str, Any]:
    def median(value: float) -> dict[str, float]:
        return {"median": value, "minimum": value}

    record = {"failure": None, "cached_tokens": 0, "prompt_tokens": 100}
    row = {
        "concurrency": 2,
        **{key: median(50.0) for key in ("aggregate", "stream", "whole", "ttft")},
        "prompt_tokens": median(100.0),
        "output_tokens": median(64.0),
        "failures": {},
        **changes.pop("row", {}),
    }
    return {
        "schema": "penny-bench/decode/1",
        "started": "2026-01-01T00:00:00+00:00",
        "client": {"penny_bench": "0.1.0"},
        "server": {"model": "m", "extensions": True},
        "plan": {"tokens": 64, "prompt_tokens": 100, "runs": 3},
        "summary": [row],
        "groups": [{"concurrency": 2, "warmup": False, "records": [{**record, **changes.pop("record", {})}]}],
        **changes,
    }


def write(path: Path, document: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def sides(folder: Path, a: list[dict[str, Any]], b: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    for side, documents in (("a", a), ("b", b)):
        for number, document in enumerate(documents):
            write(folder / side / f"{number}.json", document)
    return read_side(str(folder / "a")), read_side(str(folder / "b"))


def four(rates: list[float], hour: int = 0, **changes: Any) -> list[dict[str, Any]]:
    return [run_document([metric(RATE, rate)], hour + i, **changes) for i, rate in enumerate(rates)]


def test_a_run_document_is_compared_by_its_own_metrics(tmp_path: Path) -> None:
    def side(factor: float, hour: int) -> list[dict[str, Any]]:
        return [
            run_document(
                [
                    metric(RATE, factor * rate, share=factor * 0.5),
                    metric(TTFT, 0.1 * factor * rate, None),
                    metric(TOKENS, 256.0 + i),
                ],
                hour + i,
            )
            for i, rate in enumerate([100.0, 101.0, 99.0, 100.5])
        ]

    made = compare_restarts(*sides(tmp_path, side(1.0, 0), side(0.9, 9)), Settings())
    assert [str(row.place) for row in made.rows] == [
        "short/C4/aggregate",
        "short/all/ttft",
        "short/C4/output",
    ]
    assert [row.verdict for row in made.rows] == ["worse", "better", None]
    assert made.rows[0].change == pytest.approx(-0.1)
    # The floor is what the documents state: half of it, and 0.9 of that half.
    assert (made.rows[0].floor_a, made.rows[0].floor_b) == (pytest.approx(0.5), pytest.approx(0.45))
    # Two rows can be better or worse, so the smaller p is doubled and the third has none.
    assert made.rows[0].ratio is not None
    assert made.rows[0].p == pytest.approx(2 * made.rows[0].ratio.p)
    assert made.rows[2].p is None
    assert made.verdict == "worse"
    text = markdown(made)
    assert "| C4 | decode, all, tok/s | 100.1 | 90.11 | -10.0 |" in text
    assert "B is worse than A at C4 (decode, all). It is better at all (TTFT)." in text
    value = comparison_document(made, "penny-bench compare a b", "0")
    assert [(row["workload"], row["phase"], row["metric"], row["better"]) for row in value["rows"]] == [
        ("short", "C4", "aggregate", "higher"),
        ("short", "all", "ttft", "lower"),
        ("short", "C4", "output", None),
    ]
    # --floor takes the place of the stated one: 40 ms for each of 4 streams are 100 tok/s.
    again = compare_restarts(made.a, made.b, Settings(metrics=("short/C4/agg*",), floor={4: 40.0}))
    assert again.rows[0].floor_a == pytest.approx(1.001, abs=0.001)


def test_a_folder_for_each_restart_holds_several_workloads(tmp_path: Path) -> None:
    for side, hour in (("a", 0), ("b", 2)):
        for i in range(2):
            value = 100.0 + hour + i
            folder = tmp_path / side / f"{i:02}"
            write(folder / "short.json", run_document([metric(RATE, value)], hour + i))
            write(folder / "plain.json", run_document([metric(TTFT, value)], hour + i, workload=None))
            write(folder / "fast.json", decode_document(started=f"2026-01-01T{hour + i:02}:30:00+00:00"))
            long = decode_document(
                started=f"2026-01-01T{hour + i:02}:40:00+00:00",
                plan={"tokens": 128, "prompt_tokens": 9, "runs": 3},
            )
            long["summary"][0]["output_tokens"]["minimum"] = 128.0
            for key in ("aggregate", "ttft"):
                long["summary"][0][key]["median"] = value
            write(folder / "long.json", long)
    a, b = read_side(str(tmp_path / "a")), read_side(str(tmp_path / "b"))
    assert [Path(restart.name).name for restart in a] == ["00", "01"]
    made = compare_restarts(a, b, Settings(metrics=("run/*", "short/*", "decode (long)/*/aggregate")))
    assert [str(row.place) for row in made.rows] == [
        "decode (long)/C2/aggregate",
        "run/C4/ttft",
        "short/C4/aggregate",
    ]
    assert made.notes == ()
    tested = [row.ratio.p for row in made.rows if row.ratio]
    assert made.rows[0].p == pytest.approx(min(1.0, 3 * tested[0]))  # one family over all workloads
    assert "| workload | phase |" in markdown(made)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"workload": {"name": "short", "digest": "other"}}, "differ in the workload's digest: abc"),
        ({"plan": {"tokens": 65}}, "differ in tokens of the plan: 64"),
        ({"server": {"model": "n", "extensions": True}}, "differ in the model: m"),
        ({"server": {"model": "m", "extensions": False}}, "differ in ignore_eos"),
        ({"status": "partial"}, "it is partial: the run was interrupted"),
        ({"cache": {"verdict": "contaminated", "most": 512}}, "up to 512 cached tokens"),
        (
            {"summary": {"requests": 12, "errors": {"http": 2, "timeout": 1}}},
            "3 of 12 requests failed",
        ),
        ({"imported": {"tool": "guidellm"}}, "differ in the tool that measured: unknown"),
        ({"workload": None}, "No row was measured in every restart"),
    ],
)
def test_unlike_and_faulty_runs_are_refused_unless_forced(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    a, b = sides(tmp_path, four([100.0, 101.0]), four([100.0, 101.0], 9, **change))
    with pytest.raises(BenchError, match=words):
        compare_restarts(a, b, Settings())
    if change != {"workload": None}:
        assert any(words.split(":")[0] in note for note in compare_restarts(a, b, Settings(force=True)).notes)


def test_what_is_told_of_runs(tmp_path: Path) -> None:
    part = {"started": "2026-01-01T00:00:00+00:00", "seconds": 1.0, "requests": 2}
    a, b = sides(tmp_path, four([1.0, 2.0], earlier=[part]), four([1.0, 3.0], 9, checks={"open": 4}))
    notes = " ".join(compare_restarts(a, b, Settings()).notes)
    assert "0.json: it was interrupted and resumed" in notes
    assert "4 checks wait for a person" in notes


def test_runs_of_other_tools_know_neither_machine_nor_plan(tmp_path: Path) -> None:
    other = {"status": "imported", "imported": {"tool": "x"}, "machine": None, "plan": None, "workload": None}
    a, b = sides(tmp_path, four([1.0, 2.0], **other), four([1.0, 3.0], 9, **other))
    assert compare_restarts(a, b, Settings()).notes == ()


def test_seeds_may_differ_and_other_clients_are_told(tmp_path: Path) -> None:
    a, b = sides(tmp_path, four([100.0, 101.0]), four([100.0, 101.5], 9, machine={"cpu": "x"}))
    assert compare_restarts(a, b, Settings()).notes == (
        "The files of short differ in the GPUs: NVIDIA RTX PRO 6000 (2), none (2).",
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"row": {"failures": {"HTTP 503": 2}}}, "C2: 2 failed"),
        ({"row": {"output_tokens": {"minimum": 10.0}}}, "C2: a stream ended after 10 of 64 tokens"),
        ({"record": {"cached_tokens": 90}}, "C2: 90% of a prompt came from the server's cache"),
        ({"plan": {"tokens": 32, "prompt_tokens": 100, "runs": 3}}, "differ in tokens: 64"),
        ({"plan": {"tokens": 64, "prompt_tokens": 200, "runs": 3}}, "differ in prompt tokens: 100"),
        ({"server": {"model": "m", "extensions": False}}, "differ in ignore_eos"),
    ],
)
def test_faults_of_decode_documents(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=words):
        compare_restarts(*sides(tmp_path, [decode_document()], [decode_document(**change)]), Settings())


def test_a_few_cached_tokens_are_told(tmp_path: Path) -> None:
    a, b = sides(tmp_path, [decode_document()], [decode_document(record={"cached_tokens": 10})])
    assert "10% of a prompt" in compare_restarts(a, b, Settings()).notes[0]


def test_a_metric_that_some_restarts_lack(tmp_path: Path) -> None:
    both = [metric(RATE, 100.0), metric(TTFT, 0.1)]
    a, b = sides(
        tmp_path,
        [run_document(both), run_document([metric(RATE, 101.0)], 1)],
        [run_document([metric(RATE, 102.0)], 2), run_document([metric(RATE, 103.0)], 3)],
    )
    with pytest.raises(
        BenchError, match=r"1\.json has no short/C4/ttft, though other restarts of its side have it"
    ):
        compare_restarts(a, b, Settings())
    a = [
        a[0],
        read_side(str(write(tmp_path / "x.json", run_document([metric(RATE, 99.0), metric(TTFT, 0.2)], 4))))[
            0
        ],
    ]
    made = compare_restarts(a, b, Settings())
    assert [row.place.metric for row in made.rows] == ["aggregate"]
    assert made.notes == ("Not in every restart, so left out: short/C4/ttft.",)


def scores(values: list[float], hour: int) -> list[dict[str, Any]]:
    return [run_document([metric(SCORE, value, None)], hour + i) for i, value in enumerate(values)]


@pytest.mark.parametrize(
    ("a", "b", "word"),
    [
        ([30.0] * 4, [30.0] * 4, "equal"),
        ([0.0] * 4, [0.0] * 4, "equal"),
        ([30.0] * 4, [20.0] * 4, "worse"),  # 2 of 70 arrangements separate so well: p = 0.029
        ([30.0] * 3, [20.0] * 3, "undecided"),  # 2 of 20: p = 0.1
        ([30.0] * 4, [31.0] * 4, "better"),
        ([0.0] * 4, [3.0] * 4, "undecided"),  # no ratio
    ],
)
def test_scores_that_do_not_vary(a: list[float], b: list[float], word: str, tmp_path: Path) -> None:
    made = compare_restarts(*sides(tmp_path, scores(a, 0), scores(b, 9)), Settings())
    assert made.verdict == word
    json.dumps(comparison_document(made, "", ""), allow_nan=False)
    assert ("the same value in every restart" in markdown(made)) != (word == "undecided" and a[0] == 0)
    assert ("not positive" in markdown(made)) == (word == "undecided" and a[0] == 0)


def test_times_that_do_not_vary_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="short/C4/aggregate: The values of the restarts do not vary"):
        compare_restarts(*sides(tmp_path, four([100.0, 100.0]), four([100.0, 100.0], 9)), Settings())


def test_numbers_without_a_direction_decide_nothing(tmp_path: Path) -> None:
    documents = [run_document([metric(TOKENS, 10.0 + i)], i) for i in range(4)]
    made = compare_restarts(*sides(tmp_path, documents[:2], documents[2:]), Settings())
    assert made.verdict == "undecided"
    assert "none of these numbers can be better or worse" in markdown(made)


def test_huge_spreads_do_not_overflow(tmp_path: Path) -> None:
    a, b = sides(tmp_path, four([1e-3, 1e9]), four([1e-3, 1e10], 9))
    made = compare_restarts(a, b, Settings(alpha=1e-6))
    assert (made.verdict, made.rows[0].detectable) == ("undecided", None)
    assert made.rows[0].ratio is not None
    assert made.rows[0].ratio.high == pytest.approx(math.exp(700))
    json.dumps(comparison_document(made, "", ""), allow_nan=False)


def test_unreadable_folders_and_files(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"no \*\.json in the folder"):
        read_side(str(tmp_path))
    path = write(tmp_path / "x.json", run_document([]))
    write(tmp_path / "01" / "y.json", run_document([]))
    with pytest.raises(BenchError, match="holds results beside the folder 01; put either"):
        read_side(str(tmp_path))
    for change, words in (
        ({"metrics": None}, "lacks or garbles a part of penny-bench/run/1"),
        ({"metrics": [metric(RATE, math.nan)]}, "the number nan is not finite"),
        (
            {"metrics": [metric({**RATE, "better": "more"}, 1.0)]},
            "better is 'more', not higher, lower or null",
        ),
        ({"started": "soon"}, "lacks or garbles"),
        ({"schema": ["x"]}, "has the schema"),
        ({"schema": "penny-bench/compare/1"}, "give a file of penny-bench/decode/1 or penny-bench/run/1"),
    ):
        write(path, {**run_document([]), **change})
        with pytest.raises(BenchError, match=words):
            read_document(path)


def test_absolute_paths_are_cut_in_the_document(tmp_path: Path) -> None:
    made = compare_restarts(*sides(tmp_path, four([1.0, 2.0]), four([1.0, 3.0], 9)), Settings())
    assert str(tmp_path.parent) not in json.dumps(comparison_document(made, "", ""))
