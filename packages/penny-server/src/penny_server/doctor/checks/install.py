"""Python, packages, seams, features and byte code."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from penny_server.doctor.base import Case, Check, Finding, fail, ok, warn
from penny_server.errors import PennyError
from penny_server.profiles.planned import PLANNED
from penny_server.serving.checks import check_integration
from penny_server.sglang import SGLANG_VERSION, features

PYTHONS = ((3, 11), (3, 13))
BOUND = (
    "sglang",
    "torch",
    "sglang-kernel",
    "flashinfer-python",
    "transformers",
    "tokenizers",
    "xgrammar",
    "triton",
)
"""Packages whose other versions break a start; others are only odd."""
SHOWN = 4


def _python(case: Case) -> Iterable[Finding]:
    found = case.facts.installed.python
    text = f"Python {found[0]}.{found[1]}"
    if PYTHONS[0] <= found <= PYTHONS[1]:
        yield ok(f"{text}.")
    else:
        yield fail(
            f"{text} is not among those that we support: 3.11 to 3.13.",
            "Make an environment with one of them.",
        )


def _packages(case: Case) -> Iterable[Finding]:
    installed = case.facts.installed
    versions = installed.versions or {}
    bad = False
    odd: dict[str, str] = {}
    for by, text in installed.required:
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        found = versions.get(name)
        if found is not None and requirement.specifier.contains(found, prereleases=True):
            continue
        bad = True
        if name in BOUND or name.startswith("penny-"):
            yield fail(
                f"{by} needs {text}, and {found or 'none'} is installed.", f"Install it: pip install '{text}'"
            )
        else:
            odd[text] = found or "none"
    if odd:
        shown = ", ".join(f"{text} (found {found})" for text, found in list(odd.items())[:SHOWN])
        more = f" and {len(odd) - SHOWN} more" if len(odd) > SHOWN else ""
        yield warn(
            f"Required and of another version or missing: {shown}{more}.",
            "Install them: pip install penny-server, which brings all of them.",
        )
    if not bad:
        main = (
            n
            for n in ("penny-server", "sglang", "torch", "flashinfer-python", "sglang-kernel")
            if n in versions
        )
        yield ok(
            f"{', '.join(f'{name} {versions[name]}' for name in main)}; {len(installed.required)} pins hold."
        )


def _shadow(case: Case) -> Iterable[Finding]:
    installed = case.facts.installed
    if installed.shadow:
        yield fail(
            f"Python would import SGLang from {installed.shadow}, not the installed package.",
            "Start from another folder, and take that folder out of PYTHONPATH.",
        )
    else:
        yield ok("SGLang is imported from its own package.")


def _plugins(case: Case) -> Iterable[Finding]:
    plugins = case.facts.installed.plugins
    if plugins:
        yield warn(
            f"Other packages hook into SGLang too: {', '.join(plugins)}.",
            "Uninstall them, or name the plugins to load in SGLANG_PLUGINS.",
        )
    else:
        yield ok("No other plugin of SGLang is installed.")


def _seams(case: Case) -> Iterable[Finding]:
    known = features()
    wanted = tuple(n for n in (case.launch.features if case.launch else known) if n in known)
    try:
        check_integration(wanted)
    except PennyError as error:
        yield fail(
            error.message,
            error.hint or f"Reinstall it: pip install --force-reinstall sglang=={SGLANG_VERSION}",
        )
    else:
        yield ok(f"All seams of {', '.join(wanted) or 'no feature'} fit sglang {SGLANG_VERSION}.")


def _features(case: Case) -> Iterable[Finding]:
    launch = case.launch
    if launch is None:
        return
    if not launch.needs:
        yield ok("Every feature of the profile is built.")
        return
    named = ", ".join(name for name in launch.needs if name in PLANNED)
    yield fail(
        f"{launch.profile} needs {named}, which this version of penny-server does not have.",
        f"Start without: --without {','.join(launch.needs)}",
    )


def _bytecode(case: Case) -> Iterable[Finding]:
    installed = case.facts.installed
    if installed.bytecode:
        yield ok("SGLang is compiled to byte code.")
    elif installed.bytecode_folder:
        yield ok(f"SGLang is not compiled yet; the first start does that into {installed.bytecode_folder}.")
    else:
        yield warn(
            "SGLang is not compiled to byte code and the place for it cannot be written: every start compiles some "
            "4,000 modules in each of three processes.",
            "Set PYTHONPYCACHEPREFIX to a folder that can be written, or run python -m compileall there once.",
        )


CHECKS = (
    Check("install.python", "a Python that we support", _python),
    Check("install.packages", "every package is of the version that sglang and ours require", _packages),
    Check("install.shadow", "no other folder hides SGLang", _shadow),
    Check("install.plugins", "no other plugin changes SGLang", _plugins),
    Check("install.seams", "our hooks fit the installed SGLang", _seams),
    Check("install.features", "every feature that the profile needs is built", _features, "launch"),
    Check("install.bytecode", "modules are compiled, or can be", _bytecode),
)
