"""Write and check the index-neutral `uv.lock`.

A lock file as uv writes it names the package index of whoever ran uv, which may be a mirror that nobody
else can reach. The committed one names no index: every registry is `https://index.invalid/simple` and
every artifact address is `https://index.invalid/<file>`; hashes and sizes stay. The `[package.metadata]`
tables are left out, so that uv reads the requirements again, resolves against the index of the machine it
runs on, and keeps the locked versions.

    python tools/lock.py write            # run `uv lock`, then neutralise uv.lock
    python tools/lock.py check            # check the lock file committed at HEAD
    python tools/lock.py check --file F   # check this file instead

`uv run` and `uv sync` rewrite uv.lock in the working tree with the addresses of the machine's own index. That
is expected, and why `check` looks at what is committed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HOST = "index.invalid"
REGISTRY = f"https://{HOST}/simple"

# What uv reads of the workspace to resolve it: the requirements, and the files behind hatchling's metadata.
RESOLVER_INPUTS = (
    "pyproject.toml",
    "packages/*/pyproject.toml",
    "packages/*/README.md",
    "packages/*/LICENSE",
    "packages/*/NOTICE",
    "packages/*/src/*/__init__.py",
)
REMEDY = "Run `python tools/lock.py write` and commit uv.lock."
OFFLINE = ("failed to fetch", "error sending request", "dns error", "network connectivity is disabled")

Versions = dict[str, set[str]]


class LockError(Exception):
    """The lock file is not as it must be; the text says what was found and what to do about it."""


def neutralise(text: str) -> str:
    """Return the lock file `text` without index hosts, artifact addresses and `[package.metadata]` tables."""
    kept: list[str] = []
    in_metadata = False
    for line in text.splitlines():
        if line.startswith("["):
            in_metadata = line.startswith("[package.metadata")
        if not in_metadata:
            line = re.sub(r'\bregistry = "[^"]*"', f'registry = "{REGISTRY}"', line)
            line = re.sub(r'\burl = "[^"]*/([^"/]+)"', rf'url = "https://{HOST}/\1"', line)
            kept.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).rstrip() + "\n"


def complaints(text: str) -> Iterator[str]:
    """Yield one sentence for each way in which the lock file `text` is not index-neutral."""
    for package in tomllib.loads(text).get("package", []):
        name = package["name"]
        source = package["source"]
        if "registry" in source and source["registry"] != REGISTRY:
            yield f"{name} names the index {source['registry']}; expected {REGISTRY}."
        for kind in {"url", "git", "path"} & source.keys():
            yield f"{name} comes from the {kind} {source[kind]}; expected an index or the workspace."
        for address in _addresses(package):
            if not re.fullmatch(rf"https://{re.escape(HOST)}/[^/]+", address):
                yield f"{name} has the artifact address {address}; expected https://{HOST}/<file>."
        if "metadata" in package:
            yield f"{name} has a [package.metadata] table; expected none, so that uv reads its requirements."


def versions(text: str) -> Versions:
    """Return the locked versions of every package from an index, by name (markers may lock more than one)."""
    locked: Versions = {}
    for package in tomllib.loads(text).get("package", []):
        if "registry" in package["source"]:
            locked.setdefault(package["name"], set()).add(package["version"])
    return locked


def differences(locked: Versions, resolved: Versions) -> Iterator[str]:
    """Yield one sentence for each package whose versions differ between the lock and a new resolution."""
    for name in sorted(locked.keys() | resolved.keys()):
        before = ", ".join(sorted(locked.get(name, ()))) or "absent"
        after = ", ".join(sorted(resolved.get(name, ()))) or "absent"
        if before != after:
            yield f"{name}: the lock has {before}, the pyproject.toml files give {after}."


def _addresses(package: dict[str, Any]) -> Iterator[str]:
    for artifact in [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]:
        if "url" in artifact:
            yield artifact["url"]


def _uv_lock(folder: Path) -> subprocess.CompletedProcess[str]:
    uv = shutil.which("uv")
    if uv is None:
        raise LockError("uv was not found on PATH; install it with `pip install uv`.")
    return subprocess.run([uv, "lock"], cwd=folder, text=True, stderr=subprocess.PIPE, check=False)


def write() -> None:
    """Run `uv lock` in the workspace and leave the neutral form of its result in `uv.lock`."""
    result = _uv_lock(ROOT)
    if result.returncode:
        raise LockError(f"`uv lock` failed:\n{result.stderr}")
    path = ROOT / "uv.lock"
    path.write_text(neutralise(path.read_text()))
    print(f"Wrote uv.lock: {len(versions(path.read_text()))} packages, no index named.")


def check(file: Path | None) -> None:
    """Check that the committed lock (or `file`) is neutral, and resolves to itself in this workspace.

    Without an index in reach the second half cannot be checked; that is said, and is not a failure.

    Raises:
        LockError: the lock names an index, or does not fit the pyproject.toml files of the working tree.
    """
    text = file.read_text() if file else _committed()
    found = list(complaints(text))
    if found:
        raise LockError("\n".join([*found[:10], f"{len(found)} such places in all. {REMEDY}"]))
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        for path in (p for pattern in RESOLVER_INPUTS for p in ROOT.glob(pattern)):
            target = copy / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        (copy / "uv.lock").write_text(text)
        result = _uv_lock(copy)
        if result.returncode and any(sign in result.stderr.lower() for sign in OFFLINE):
            print("The lock names no index. No index is in reach: its versions were NOT checked.")
            return
        if result.returncode:
            raise LockError(f"The lock does not fit the pyproject.toml files; uv says:\n{result.stderr}")
        changed = list(differences(versions(text), versions((copy / "uv.lock").read_text())))
    if changed:
        raise LockError("\n".join([*changed[:10], REMEDY]))
    print(f"The lock names no index and keeps all {len(versions(text))} packages at their locked versions.")


def _committed() -> str:
    command = ["git", "show", "HEAD:uv.lock"]
    result = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
    if result.returncode:
        raise LockError(f"`{' '.join(command)}` failed: {result.stderr.strip()}. Name a file with --file.")
    return result.stdout


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Write or check the index-neutral uv.lock.")
    parser.add_argument("action", choices=["write", "check"])
    parser.add_argument("--file", type=Path, help="check this lock file instead of the committed one")
    arguments = parser.parse_args(argv)
    try:
        write() if arguments.action == "write" else check(arguments.file)
    except LockError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
