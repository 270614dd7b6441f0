"""Plan files of `penny-bench abba`."""

from pathlib import Path

import pytest

from penny_bench.abba import read_plan, steps
from penny_bench.compare import plan_comparison
from penny_bench.errors import BenchError

SIDES = '[a]\nname = "old"\ncommand = "serve --fast"\n[b]\nname = "new"\ncommand = ["serve", "x y"]\n'
MEASURE = '[[measure]]\nname = "short"\ncommand = "penny-bench decode --tokens 64"\n'
URL = 'url = "http://127.0.0.1:8000/"\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "p.toml"
    path.write_text(text)
    return path


def test_a_plan(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    text = (
        f'{URL}restarts = 3\nmargin = 0.05\nmetrics = ["ttft"]\nfloor = {{ 0 = 4.5 }}\nready_path = "health"\n'
        + SIDES.replace("[b]", 'env = { X = "1" }\nfolder = "here"\n[b]\nurl = "https://other:1"')
        + MEASURE
    )
    plan = read_plan(write(tmp_path, text))
    assert (plan.a.command, plan.b.command) == (("serve", "--fast"), ("serve", "x y"))
    assert (plan.a.url, plan.b.url) == ("http://127.0.0.1:8000", "https://other:1")
    assert (plan.a.env, plan.a.folder) == ((("X", "1"),), (tmp_path / "here").resolve())
    assert plan.measures[0].command == ("decode", "--tokens", "64")
    assert plan.measures[0].accept == (0,)
    assert (plan.settings.margin, plan.settings.metrics, plan.settings.paired) == (0.05, ("ttft",), True)
    assert plan.settings.floor == {0: 4.5}
    assert plan.ready_path == "/health"
    assert [step.name for step in steps(plan.restarts)] == ["a/01", "b/01", "b/02", "a/02", "a/03", "b/03"]


def test_restarts_follow_from_spread_and_effect(tmp_path: Path) -> None:
    plan = read_plan(write(tmp_path, f"{URL}cv = 0.03\neffect = 0.04\nrows = 2\n{SIDES}{MEASURE}"))
    assert plan.restarts == plan_comparison(0.03, 0.04, paired=True, rows=2).restarts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = ", r"p\.toml is no TOML"),
        (URL + SIDES + MEASURE, "The key restarts is missing; give it, or cv and effect"),
        (f"restarts = 2\n{SIDES}{MEASURE}", "The key url is missing"),
        (f"{URL}restarts = 2\n{MEASURE}", "The key a is missing. The key b is missing."),
        (f"{URL}restarts = 2\n{SIDES}", "The key measure is missing"),
        (f"{URL}restarts = 2\nspeed = 3\n{SIDES}{MEASURE}", "There is no key speed; remove or correct it"),
        (f"{URL}restarts = 1\n{SIDES}{MEASURE}", "The key restarts is 1: .*greater than or equal to 2"),
        (f'{URL}restarts = "4"\n{SIDES}{MEASURE}', "The key restarts is '4': .*integer"),
        (f"{URL}restarts = 2\nmargin = 2.0\n{SIDES}{MEASURE}", r"The margin is 2\.0"),
        (f'{URL}restarts = 2\nmetrics = ["x", "x"]\n{SIDES}{MEASURE}', "give each once"),
        (
            f"{URL}restarts = 2\nfloor = {{ x = 1.0 }}\n{SIDES}{MEASURE}",
            "The keys of floor are x; give numbers",
        ),
        (f'url = "here"\nrestarts = 2\n{SIDES}{MEASURE}', r"The url of \[a\] is 'here'"),
        (f"{URL}restarts = 2\n{SIDES.replace('serve --fast', '')}{MEASURE}", r"The key a\.command is ''"),
        (f"{URL}restarts = 2\n{SIDES.replace('--fast', chr(39))}{MEASURE}", r"a\.command is no command line"),
        (f"{URL}restarts = 2\n{SIDES}folder = 'no'\n{MEASURE}", r"b\.folder names .*no, which is no folder"),
        (f"{URL}restarts = 2\n{SIDES}{MEASURE}{MEASURE}", "two measures have the name 'short'"),
        (
            f"{URL}restarts = 2\n{SIDES}{MEASURE.replace('short', '../x')}",
            r"The key measure\.0\.name is '\.\./x'",
        ),
        (
            f"{URL}restarts = 2\n{SIDES}{MEASURE.replace('decode', 'plan')}",
            "begins with 'plan'; begin it with decode or run",
        ),
        (
            f"{URL}restarts = 2\n{SIDES}{MEASURE.replace('64', '64 --url=x')}",
            r"measure\.0\.command has --url",
        ),
    ],
)
def test_errors_name_the_key(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=words):
        read_plan(write(tmp_path, text))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"Could not read .*: No such file"):
        read_plan(tmp_path / "no.toml")
