"""Workloads as files: what to measure, in TOML, with a kind that knows how."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penny_bench.errors import BenchError
from penny_bench.workload.kinds import KINDS, Kind, load_kind


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str = Field(min_length=1)
    version: int = Field(ge=1)
    kind: str
    source: str = ""
    settings: dict[str, Any] = {}
    sampling: dict[str, Any] = {}


@dataclass(frozen=True)
class Workload:
    """A workload that can be run.

    Attributes:
        name: as it is called on the command line and in results.
        title: a line for people.
        version: goes up when the numbers of two versions can no longer be compared.
        source: where its definition comes from.
        kind: how it is run.
        settings: of the kind, checked.
        sampling: fields of every request, such as `temperature`.
        changed: settings that differ from the file, by name: a run with any is labelled and has another digest.
        digest: of all of these; two runs are of the same workload only if it is the same.
    """

    name: str
    title: str
    version: int
    source: str
    kind: Kind
    settings: BaseModel
    sampling: dict[str, Any]
    changed: dict[str, Any]
    digest: str

    def document(self) -> dict[str, Any]:
        """What a result says of its workload."""
        return {
            "name": self.name,
            "title": self.title,
            "version": self.version,
            "kind": self.kind.name,
            "source": self.source,
            "digest": self.digest,
            "settings": self.settings.model_dump(mode="json"),
            "sampling": self.sampling,
            "changed": self.changed,
        }


def shipped() -> list[str]:
    """Names of the workloads that come with the package, sorted."""
    folder = files("penny_bench.workloads")
    return sorted(e.name.removesuffix(".toml") for e in folder.iterdir() if e.name.endswith(".toml"))


def read_workload(what: str, changed: Mapping[str, Any] | None = None) -> Workload:
    """A shipped workload by its name, or one from a file.

    Args:
        what: a name of `shipped`, or the path of a TOML file.
        changed: settings that replace those of the file.

    Raises:
        BenchError: there is none, or the file or a setting is wrong; the message names the place.
    """
    if what in shipped():
        text = files("penny_bench.workloads").joinpath(f"{what}.toml").read_text(encoding="utf-8")
    elif what.endswith(".toml"):
        try:
            text = Path(what).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BenchError(f"The workload {what} cannot be read ({error}); correct the path.") from error
    else:
        raise BenchError(f"There is no workload {what!r}; give a TOML file or one of {', '.join(shipped())}.")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BenchError(f"The workload {what} is not TOML ({error}).") from error
    return parse_workload(data, what, changed or {})


def parse_workload(data: Mapping[str, Any], what: str, changed: Mapping[str, Any]) -> Workload:
    """Check the content of a workload file; `what` begins each message.

    Raises:
        BenchError: a key or value is wrong.
    """
    try:
        file = _File.model_validate(dict(data))
    except ValidationError as error:
        raise BenchError(f"The workload {what} is wrong: {_first(error)}.") from error
    if file.kind not in KINDS:
        raise BenchError(f"The workload {what} has the kind {file.kind!r}; the kinds are {', '.join(KINDS)}.")
    kind = load_kind(file.kind)
    try:
        base = kind.settings.model_validate(file.settings)
        settings = kind.settings.model_validate({**file.settings, **changed})
    except ValidationError as error:
        raise BenchError(f"The workload {what} has wrong settings: {_first(error)}.") from error
    before, after = base.model_dump(mode="json"), settings.model_dump(mode="json")
    differing = {key: value for key, value in after.items() if value != before.get(key)}
    identity = [file.name, file.version, file.kind, after, file.sampling]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return Workload(
        name=file.name,
        title=file.title,
        version=file.version,
        source=file.source,
        kind=kind,
        settings=settings,
        sampling=file.sampling,
        changed=differing,
        digest=f"sha256:{digest}",
    )


def parse_changes(pairs: list[str]) -> dict[str, Any]:
    """`tokens=64` and `concurrency=[1,2]` as settings; a value is TOML, or else text.

    Raises:
        BenchError: a pair has no `=`, or a name comes twice.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise BenchError(f"--set is {pair!r}; write name=value, such as tokens=64.")
        if name in found:
            raise BenchError(f"--set names {name!r} twice; give it once.")
        try:
            found[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[name] = value
    return found


def _first(error: ValidationError) -> str:
    problem = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"]) or "the whole"
    return f"{place}: {problem['msg']}, found {problem.get('input')!r}"[:300]
