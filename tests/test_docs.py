"""What the documentation shows is what happens: its commands, its examples, its map of the modules."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from penny_server.sglang.registry import all_seams, features

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("packages/*/README.md")])


def blocks(language: str) -> list[tuple[str, str]]:
    """Return (page, code) for each fenced block of the language in all pages."""
    fence = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [(str(page.relative_to(ROOT)), code) for page in PAGES for code in fence.findall(page.read_text())]


def penny_commands() -> set[str]:
    """Return the `penny` commands of the pages that start no server and need none."""
    lines = [line.partition("  #")[0].strip() for _, code in blocks("bash") for line in code.splitlines()]
    commands = {line.removeprefix("uv run ") for line in lines}
    quick = ("penny profiles", "penny seams", "penny version")
    return {c for c in commands if (c.startswith(quick) or "--dry-run" in c) and "FOLDER" not in c}


@pytest.mark.parametrize(
    ("page", "code"), [pytest.param(*b, id=f"{b[0]}-{i}") for i, b in enumerate(blocks("python"))]
)
def test_python_example_runs(page: str, code: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", code]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, f"The example in {page} fails:\n{result.stderr}"
    said = [line.partition("# ")[2].strip() for line in code.splitlines() if line.startswith("print(")]
    for expected in filter(None, said):
        assert expected in result.stdout, f"The example in {page} promises {expected!r}."


def test_the_pages_show_commands_to_test() -> None:
    assert {
        "penny profiles",
        "penny seams",
        "penny version",
        "penny serve tiny-27b --dry-run",
    } <= penny_commands()


@pytest.mark.parametrize("command", sorted(penny_commands()))
def test_penny_command_of_the_pages_works(command: str) -> None:
    script = Path(sys.executable).with_name("penny")
    arguments = shlex.split(command)[1:]
    result = subprocess.run([script, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()


def test_the_example_seam_is_a_real_one() -> None:
    seam = next(seam for seam in all_seams() if seam.name == "cpu.extra-buffer")
    page = (ROOT / "docs" / "seams.md").read_text()
    for part in (seam.name, seam.target, seam.digest, seam.summary):
        assert f"| `{part}`" in page or f"| {part}" in page, (
            f"docs/seams.md does not say {part!r} of {seam.name}."
        )


def test_seams_page_lists_every_feature() -> None:
    section = (ROOT / "docs" / "seams.md").read_text().partition("## The features")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)) == set(features())


def test_seams_page_lists_every_seam_as_it_is_declared() -> None:
    section = (ROOT / "docs" / "seams.md").read_text().partition("## Every seam")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| (\w+) \| (.+) \|$", section, re.MULTILINE)
    assert sorted(rows) == sorted((seam.name, seam.kind, seam.summary) for seam in all_seams())


def test_the_two_commands_are_the_same_everywhere() -> None:
    for start in ("pip install uv && uv run penny serve tiny-27b", "pip install uv && uv run nox"):
        for page in ("README.md", "docs/index.md", "llms.txt"):
            assert start in (ROOT / page).read_text(), f"{page} does not show {start!r}."


@pytest.mark.parametrize("package", sorted(path.name for path in ROOT.glob("packages/*")))
def test_module_map_lists_exactly_the_folders_that_exist(package: str) -> None:
    source = ROOT / "packages" / package / "src" / package.replace("-", "_")
    folders = {path.parent for path in source.rglob("*.py")} - {source}
    folders |= {parent for folder in folders for parent in folder.parents if source in parent.parents}
    text = (ROOT / "docs" / "modules.md").read_text()
    section = text.partition(f"\n## {package}\n")[2].partition("\n## ")[0]
    listed = set(re.findall(r"^\| `([^`]+)/` \|", section, re.MULTILINE))
    assert listed == {str(folder.relative_to(source)) for folder in folders}
