"""Faults, and the proof that penny doctor names them and that the fix it names works."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penny_models import tiny
from penny_server.doctor import CHECKS

_spec = importlib.util.spec_from_file_location("machines", Path(__file__).with_name("machines.py"))
assert _spec is not None
assert _spec.loader is not None
m: Any = importlib.util.module_from_spec(_spec)
sys.modules["machines"] = m
_spec.loader.exec_module(m)

LIGHT = tuple(check for check in CHECKS if check.name != "install.seams")
"""The seams are read once, in a test of their own."""


def cpu(tmp: Path) -> Any:
    return m.Ground(m.facts(host=m.host(16)))


def model(tmp: Path) -> Any:
    folder = shutil.copytree(tiny.path("tiny-27b"), tmp / "model")
    return m.Ground(m.facts(host=m.host(16)), model=folder)


def gpu(tmp: Path) -> Any:
    return m.Ground(m.facts(m.pro_6000()), "qwen38-27b")


def flash(tmp: Path) -> Any:
    return m.Ground(m.facts(m.pro_6000()), "flash-next", without=m.UNBUILT)


def dflash(tmp: Path) -> Any:
    return m.Ground(m.facts(m.pro_6000()), "qwen38-27b-dflash2", without=m.UNBUILT)


def as_told(ground: Any, fix: str, tmp: Path) -> None:
    """Does what the fix says: the option that it gives, or the setting and the number that it names."""
    option = re.search(r"--set (\w+)=([\w.]*\w)", fix) or re.search(
        r"[Ss]et (\w+) (?:to|above) (\d[\d.]*\d|\w+)", fix
    )
    if option is None:
        option = re.search(r"(\w+) above ([\d.]*\d)", fix)
    assert option is not None, fix
    value = str(float(option[2]) + 0.01) if "above" in fix else option[2]
    ground.settings[option[1]] = value


@dataclass(frozen=True)
class Fault:
    """What is broken and where it was seen, who says so in which words, and how the fix is done."""

    name: str
    source: str
    ground: Callable[[Path], Any]
    seed: Callable[[Any, Path], Any]
    check: str
    words: str
    fix: Callable[[Any, str, Path], Any] = as_told
    state: str = "fail"


def settings(**values: str) -> Callable[[Any, Path], Any]:
    return lambda g, tmp: g.settings.update(values)


def has(part: str, **values: Any) -> Callable[[Any, Path], Any]:
    return lambda g, tmp: g.change(part, **values)


def _named(findings: list[Any], state: str) -> dict[str, Any]:
    return {finding.check: finding for finding in findings if finding.state == state}


def prove(fault: Fault, tmp_path: Path) -> None:
    """Exactly one check names the fault, and is content once its fix was done."""
    ground = fault.ground(tmp_path)
    healthy = ground.look(LIGHT)
    assert _named(healthy, "fail") == {}
    fault.seed(ground, tmp_path)
    findings = ground.look(LIGHT)
    known = set(_named(healthy, "warn")) - {fault.check}
    named = _named(findings, fault.state)
    if fault.state == "warn":
        assert _named(findings, "fail") == {}
        assert set(named) - known == {fault.check}
    else:
        assert set(named) == {fault.check}
    finding = named[fault.check]
    assert fault.words in finding.found
    assert finding.fix
    fault.fix(ground, finding.fix, tmp_path)
    after = ground.look(LIGHT)
    assert [f for f in after if f.check == fault.check and f.state == fault.state] == []
    assert _named(after, "fail") == {}
    for kept in ground.kept:
        kept.close()
