"""The page on profiles says of every flag of the reference what became of it, and the profiles agree."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from penny_server.profiles import Launch, Surroundings, load, names, resolve
from penny_server.profiles.flags import canonical, catalogue
from penny_server.profiles.options import OPTIONS
from penny_server.profiles.planned import PLANNED

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "profiles.md").read_text()
REFERENCE = tomllib.loads((ROOT / "packages/penny-server/tests/data/reference.toml").read_text())
LAUNCHERS = {
    "flash-next-frspec": REFERENCE["flash_next_frspec"],
    "flash-next": {
        flag: value
        for flag, value in REFERENCE["flash_next_frspec"].items()
        if flag not in REFERENCE["flash_next"]["without"]
    },
    "qwen38-27b-dflash2": REFERENCE["qwen38_27b_dflash2"],
}
SAME = "the same"


def rows(heading: str) -> dict[str, list[str]]:
    """The rows of the table under a heading: the name in the first cell, and the other cells."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in section.splitlines()
        if "|" in line
    ]
    named = [
        (re.match(r"`([^`]+)`", first), rest)
        for first, *rest in ([c.strip("| ") for c in row] for row in cells)
    ]
    return {match[1]: rest for match, rest in named if match}


def launch(profile: str) -> Launch:
    return resolve(load(profile), "cuda", Path("/m"), Surroundings(Path("/s"), 1))


def value_of(found: Launch, flag: str) -> Any:
    name = canonical(flag)
    if name in ("host", "port"):
        return str(getattr(found, name))
    return found.settings.get(name)


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, str) and theirs.startswith("{"):
        return ours == json.loads(theirs)
    return ours is True if theirs is True else ours is not None and str(ours) == theirs


ARGUMENTS = rows("Every argument of the reference")
ENVIRONMENT = rows("Every environment value of the reference")
FLAGS = sorted({flag for args in LAUNCHERS.values() for flag in args})


def test_the_launchers_are_written_down_whole() -> None:
    """Counted by hand on the reference's pages: 50 arguments of launcher A, 48 of B, 52 of C, 35 variables and one."""
    assert [len(args) for args in LAUNCHERS.values()] == [50, 48, 52]
    assert (len(REFERENCE["environment"]), len(REFERENCE["environment_27b"])) == (35, 1)


@pytest.mark.parametrize("flag", FLAGS)
def test_argument(flag: str) -> None:
    assert flag in ARGUMENTS, f"docs/profiles.md does not say what became of {flag}."
    ours, why = ARGUMENTS[flag]
    equal = {
        profile: same(value_of(launch(profile), flag), args[flag])
        for profile, args in LAUNCHERS.items()
        if flag in args
    }
    if ours == SAME:
        assert all(equal.values()), f"{flag} is not the same: {equal}"
    else:
        assert why, f"docs/profiles.md gives no reason for {flag}."
        assert not any(equal.values()), f"{flag} is the same, and docs/profiles.md says {ours!r}."


@pytest.mark.parametrize("name", sorted({**REFERENCE["environment"], **REFERENCE["environment_27b"]}))
def test_environment_value(name: str) -> None:
    assert name in ENVIRONMENT, f"docs/profiles.md does not say what became of {name}."
    ours, why = ENVIRONMENT[name]
    wanted = {**REFERENCE["environment"], **REFERENCE["environment_27b"]}[name]
    found = {launch(profile).env.get(name) for profile in LAUNCHERS}
    if ours == SAME:
        assert found == {wanted}
    else:
        assert why
        assert found == {None}


@pytest.mark.parametrize("name", sorted(REFERENCE["given"]))
def test_what_a_person_gives(name: str) -> None:
    (ours,) = rows("What a person may give")[name]
    assert ours
    for key in re.findall(r"`([a-z0-9_]+)`", ours):
        assert key in OPTIONS or key in catalogue(), f"{key} is no setting."


def test_later_arguments_are_in_the_table() -> None:
    assert set(REFERENCE["later"]) <= set(ARGUMENTS)
    assert set(ARGUMENTS) == {*FLAGS, *REFERENCE["later"]}


def test_the_page_lists_what_there_is() -> None:
    assert set(rows("Options")) == set(OPTIONS)
    assert set(rows("Features that are not built yet")) == set(PLANNED)
    listed = PAGE.partition("# Profiles\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([^`]+)` \|", listed, re.MULTILINE)) == set(names())


def test_settings_file_of_the_page(tmp_path: Path) -> None:
    from penny_server.profiles.settings import gather

    (example,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    file = tmp_path / "penny.toml"
    file.write_text(example)
    person = gather("flash-next", {}, (file,))
    assert person.model == Path("/models/flash-next")
    assert [dict(layer.options) for layer in person.layers] == [{"reasoning_effort": "high"}, {}]
    assert person.layers[1].sglang == {"max_total_tokens": 745600}
