"""What CI runs, session by session: `uv run nox` runs them all, `uv run nox -s lint types` runs some.

Every session makes its own environment with uv, at the versions of uv.lock unless it says otherwise. A test
session removes its environment when it has passed, and leaves its counts in .nox/results/, where
`python tools/totals.py` adds them up.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

import nox

ROOT = Path(__file__).parent
RESULTS = ROOT / ".nox" / "results"
BYTE_CODE = ROOT / ".nox" / "byte-code"
PACKAGES = ("penny-kernels", "penny-spec", "penny-cache", "penny-models", "penny-server", "penny-bench")
PYTHONS = ("3.11", "3.12", "3.13")
IN_CI = "3.13"
"""The Python of `tests` there, to keep CI short: `lowest` runs every package's tests with 3.11, and 3.12 lies between.
Asked for by name (`uv run nox -s "tests-3.12(penny-bench)" -- -q`, any argument), the others run."""
TWO_AT_ONCE = ("--numprocesses=2", "--dist=worksteal")
"""For the tests of a package, which mostly wait for one process or another."""
TWO_SERVERS = ("--numprocesses=2", "--dist=loadfile")
"""For whole-server tests, most of whose time goes into starts: imports, on one core. The tests of a file share servers.
(Groups, `--dist=loadgroup`, do nothing with pytest 9.2 and pytest-xdist 3.8.)"""

# The siblings that each package brings with it when it is installed alone: the arrows of the architecture.
SIBLINGS = {
    "penny-kernels": set(),
    "penny-spec": {"penny-kernels"},
    "penny-cache": set(),
    "penny-models": {"penny-kernels"},
    "penny-server": {"penny-kernels", "penny-spec", "penny-cache", "penny-models"},
    "penny-bench": set(),
}

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["lock", "lint", "types", "docs", "workspace", "tests", "wheels", "lowest", "serving"]

# pyenv hides every interpreter but its default one; its shims find all those that this variable names.
pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
if interpreters := [path.name for version in PYTHONS for path in pyenv.glob(f"{version}.*")]:
    os.environ["PYENV_VERSION"] = ":".join(interpreters)


def sync(session: nox.Session, *arguments: str) -> None:
    """Bring the session's environment to what uv.lock says for these arguments of `uv sync`."""
    python = session.virtualenv.location
    session.run_install(
        "uv", "sync", "--quiet", "--no-default-groups", f"--python={python}", *arguments,
        env={"UV_PROJECT_ENVIRONMENT": python},
    )  # fmt: skip


def run_pytest(session: nox.Session, name: str, *arguments: str | Path) -> None:
    """Run pytest with one thread a process, keep its counts as `name`, and remove the environment if all passed."""
    report = RESULTS / f"{name}.xml"
    session.run(
        "python", "-m", "pytest", f"--config-file={ROOT / 'pyproject.toml'}", f"--junitxml={report}",
        *map(str, arguments), *session.posargs,
        env={
            "OMP_NUM_THREADS": "1",
            # Many tests start processes that import thousands of modules: their byte code is made once, and kept
            # out of the source tree.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(BYTE_CODE),
        },
    )  # fmt: skip
    shutil.rmtree(session.virtualenv.location)
    shutil.rmtree(BYTE_CODE, ignore_errors=True)


@nox.session
def lock(session: nox.Session) -> None:
    """The committed uv.lock names no index and fits the pyproject.toml files."""
    session.run("python", "tools/lock.py", "check")


@nox.session
def lint(session: nox.Session) -> None:
    """ruff: its rules, and its format. Then the limit on lines of code."""
    sync(session, "--only-group=lint")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("python", "tools/size.py")


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict over the sources of the six packages."""
    sync(session, "--all-packages", "--all-extras", "--all-groups")
    session.run("mypy", *(f"packages/{package}/src" for package in PACKAGES), "noxfile.py", "tools")


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation site, where a broken link or a missing docstring target is an error."""
    sync(session, "--only-group=docs")
    session.run("mkdocs", "build", "--strict", *session.posargs)


@nox.session
def workspace(session: nox.Session) -> None:
    """The tests of this repository itself: its tools, and the commands that its documentation shows."""
    sync(session, "--group=test")
    run_pytest(session, "workspace", "tests")


@nox.session(python=PYTHONS)
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def tests(session: nox.Session, package: str) -> None:
    """One package's own tests with one Python, in an environment of its requirements and extras only."""
    if session.python != IN_CI and not session.posargs:
        session.skip(f"{package} is tested with other Pythons, to keep CI short.")
    oracles = ["--only-group=oracles"] if package in ("penny-kernels", "penny-spec") else []
    sync(session, "--only-group=test", *oracles)
    sync(session, f"--package={package}", "--all-extras", "--inexact")
    if package == "penny-cache":
        sync(session, "--only-group=servers", "--inexact")
    if package == "penny-spec":  # its tests compare with the trained drafts, which its wheel does not need
        sync(session, "--package=penny-models", "--inexact")
    folder = f"packages/{package}/tests"
    name = f"tests-{package}-{session.python}"
    run_pytest(session, name, *TWO_AT_ONCE, folder, f"--ignore={folder}/serving")


@nox.session
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def wheels(session: nox.Session, package: str) -> None:
    """One built wheel: its contents, and that it works where only what it requires is installed.

    Its tests run with any argument (`uv run nox -s wheels -- -q`); in CI `lowest` runs them outside of the tree.
    """
    wheel = next(built_wheels().glob(f"{package.replace('-', '_')}-*.whl"))
    session.run("python", "tools/wheel.py", str(wheel))
    session.install(*find_links(wheel), f"--constraints={locked_versions()}", str(wheel))
    session.run("python", "tools/installed.py", str(wheel.parent))
    installed = str(session.run("uv", "pip", "list", "--format=freeze", silent=True)).split()
    siblings = {line.split("==")[0] for line in installed if line.startswith("penny-")} - {package}
    if siblings != SIBLINGS[package]:
        session.error(f"Installing {package} alone brought {siblings}; expected {SIBLINGS[package]}.")
    if session.posargs:
        test_outside(session, f"wheels-{package}", package)
        return
    with tempfile.TemporaryDirectory() as outside, session.chdir(outside):
        module = package.replace("-", "_")
        session.run(
            "python", "-W", "error::ImportWarning", "-c", f"import {module}; print({module}.__version__)"
        )
        for name in commands(ROOT / "packages" / package / "pyproject.toml"):
            session.run(name, "--help", silent=True)
    shutil.rmtree(session.virtualenv.location)


@nox.session
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def lowest(session: nox.Session, package: str) -> None:
    """One built wheel with the lowest versions that its requirements declare; its tests as in `wheels`."""
    wheel = next(built_wheels().glob(f"{package.replace('-', '_')}-*.whl"))
    requirements = f"packages/{package}/pyproject.toml"
    session.install("--resolution=lowest-direct", "--no-sources", *find_links(wheel), "-r", requirements)
    session.install("--no-deps", str(wheel))
    session.run("python", "tools/installed.py", str(wheel.parent))
    test_outside(session, f"lowest-{package}", package)


@nox.session
def serving(session: nox.Session) -> None:
    """Whole-server tests: the real SGLang server on the CPU device, with a tiny checkpoint."""
    sync(session, "--group=test")
    run_pytest(session, "serving", *TWO_SERVERS, "packages/penny-server/tests/serving")


@functools.cache
def built_wheels() -> Path:
    """Build the six wheels, once per run of nox; return their folder."""
    folder = ROOT / ".nox" / "wheels"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["uv", "build", "--quiet", "--all-packages", "--wheel", f"--out-dir={folder}"], check=True)
    return folder


def commands(requirements: Path) -> list[str]:
    """The commands that a package installs."""
    return sorted(tomllib.loads(requirements.read_text())["project"].get("scripts", {}))


def find_links(wheel: Path) -> list[str]:
    """Return the options with which `uv pip install` takes the siblings of `wheel` from its folder.

    uv's cache knows a found wheel by its path and version, which every run here shares: without the refresh it
    installs the wheel of an older commit.
    """
    return [f"--find-links={wheel.parent}", *(f"--refresh-package={package}" for package in PACKAGES)]


@functools.cache
def locked_versions() -> Path:
    """Write the versions of uv.lock as constraints for `uv pip install`; return the file."""
    file = ROOT / ".nox" / "locked.txt"
    everything = ["--all-packages", "--all-extras", "--all-groups", "--no-emit-workspace", "--no-hashes"]
    subprocess.run(["uv", "export", "--quiet", *everything, f"--output-file={file}"], check=True)
    return file


def test_outside(session: nox.Session, name: str, package: str) -> None:
    """Run a copy of the package's tests from a temporary folder, where no source tree can be imported."""
    session.install("--group", f"{ROOT}/pyproject.toml:test", f"--constraints={locked_versions()}")
    with tempfile.TemporaryDirectory() as outside:
        tests = Path(outside, "tests")
        shutil.copytree(f"packages/{package}/tests", tests, ignore=shutil.ignore_patterns("serving"))
        with session.chdir(outside):
            run_pytest(session, name, *TWO_AT_ONCE, f"--rootdir={outside}", "tests")
