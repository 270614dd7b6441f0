"""Python, installed packages and what they require; nothing is imported."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Container, Iterable, Mapping
from importlib.metadata import Distribution, distributions, entry_points
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from penny_server.doctor.facts import Installed

OURS = "penny-"
GROUPS = ("sglang.srt.plugins", "sglang.srt.platforms")


def read_installed(environ: Mapping[str, str]) -> Installed:
    """Python and packages as a server started from here would find them."""
    found: dict[str, Distribution] = {}
    for distribution in distributions():
        name = distribution.metadata["Name"]
        if name:
            found.setdefault(canonicalize_name(name), distribution)  # the first on the path is imported
    roots = ["sglang", *(name for name in found if name.startswith(OURS))]
    required = tuple((root, text) for root in roots if root in found for text in _requirements(found[root]))
    wanted = {*roots, *(canonicalize_name(Requirement(text).name) for _, text in required)}
    bytecode, folder = _bytecode(environ)
    return Installed(
        python=sys.version_info[:2],
        versions={name: found[name].version for name in sorted(wanted) if name in found},
        required=required,
        torch_cuda=_torch_cuda(),
        bytecode=bytecode,
        bytecode_folder=folder,
        plugins=tuple(_plugins({canonicalize_name(Requirement(text).name) for _, text in required})),
        shadow=_shadow(found.get("sglang")),
    )


def _requirements(distribution: Distribution) -> Iterable[str]:
    for text in distribution.requires or ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield f"{requirement.name}{requirement.specifier}"


def _torch_cuda() -> str:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return ""
    file = Path(spec.origin).with_name("version.py")
    match = re.search(r"^cuda\b.*=\s*'([\d.]+)'", file.read_text() if file.is_file() else "", re.MULTILINE)
    return match[1] if match else ""


def _bytecode(environ: Mapping[str, str]) -> tuple[bool, str]:
    """Whether SGLang's largest module is compiled already, and where a server could keep its byte code."""
    spec = importlib.util.find_spec("sglang")
    if spec is None or spec.origin is None:
        return False, ""
    package = Path(spec.origin).parent
    source = package / "srt" / "server_args.py"
    prefix = environ.get("PYTHONPYCACHEPREFIX")
    kept = Path(importlib.util.cache_from_source(str(source)))
    there = kept.is_file() and source.is_file() and kept.stat().st_mtime >= source.stat().st_mtime
    folder = Path(prefix) if prefix else package
    while not folder.exists():
        folder = folder.parent
    return there, str(prefix or package) if os.access(folder, os.W_OK) else ""


def _plugins(expected: Container[str]) -> Iterable[str]:
    """Entry points of packages that are neither ours nor required by SGLang itself."""
    for group in GROUPS:
        for point in entry_points(group=group):
            package = point.dist.metadata["Name"] if point.dist else "an unknown package"
            if canonicalize_name(package) != "penny-server" and canonicalize_name(package) not in expected:
                yield f"{point.name} of {package}"


def _shadow(distribution: Distribution | None) -> str:
    spec = importlib.util.find_spec("sglang")
    if spec is None or distribution is None:
        return ""
    place = (
        Path(spec.origin).parent if spec.origin else Path(next(iter(spec.submodule_search_locations or [""])))
    )
    installed = Path(str(distribution.locate_file("sglang")))
    # An editable install has no files beside its metadata.
    return str(place) if installed.is_dir() and place.resolve() != installed.resolve() else ""
