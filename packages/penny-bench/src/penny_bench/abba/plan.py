"""The plan of a comparison that is run from start to end."""

from __future__ import annotations

import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from penny_bench.compare import Settings, plan_comparison
from penny_bench.errors import BenchError

Side = Literal["a", "b"]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Command = Annotated[list[str], Field(min_length=1)] | Text
FileName = Annotated[str, StringConstraints(pattern=r"^\w[\w.-]*$")]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, lt=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Server(_Part):
    name: Text
    command: Command
    env: dict[str, str] = {}
    folder: Text | None = None
    url: Text | None = None


class _Measure(_Part):
    name: FileName
    command: Command
    accept: list[int] = [0]
    timeout: Seconds | None = None


class _File(_Part):
    url: Text | None = None
    restarts: Annotated[int, Field(ge=2, le=1000)] | None = None
    paired: bool = True
    margin: float = 0.03
    alpha: float = 0.05
    metrics: list[Text] = []
    floor: dict[str, float] | None = None
    force: bool = False
    cv: Share | None = None
    effect: Share | None = None
    rows: Annotated[int, Field(ge=1)] = 1
    ready_path: Text = ""
    ready_timeout: Seconds = 1800.0
    stop_timeout: Seconds = 30.0
    pause: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    a: _Server
    b: _Server
    measure: Annotated[list[_Measure], Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class ServerPlan:
    """How the server of one side is started.

    Attributes:
        name: of the setting, for people.
        command: program and arguments; it must stay in the foreground.
        env: variables set beside those of this process.
        folder: in which it is started; None for the one in which this command runs.
        url: where it will answer.
    """

    name: str
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    folder: Path | None
    url: str


@dataclass(frozen=True, kw_only=True)
class MeasurePlan:
    """One command of penny-bench that is run on every restart.

    Attributes:
        name: of its files.
        command: arguments of `penny-bench`, without `--url` and `--json`.
        accept: exit statuses with which its result counts.
        timeout: longest time that it may take, s; None for no limit.
    """

    name: str
    command: tuple[str, ...]
    accept: tuple[int, ...]
    timeout: float | None


@dataclass(frozen=True, kw_only=True)
class AbbaPlan:
    """A comparison from start to end.

    Attributes:
        a, b: the old and the new side.
        measures: what is run on every restart, in this order.
        restarts: of each side.
        settings: of the comparison.
        cv: spread between restarts of a side that is expected, a share; None where it is not known.
        effect: difference that shall be found, a share; None where none is stated.
        rows: how many rows are expected to be compared.
        ready_path: path that answers once the server is ready; "" for `/health`, and `/v1/models` where there is no
            such path. SGLang lists its models while it still warms up.
        ready_timeout, stop_timeout: longest time for a start, and for each signal that ends a server, s.
        pause: between the end of a server and the next start, s.
    """

    a: ServerPlan
    b: ServerPlan
    measures: tuple[MeasurePlan, ...]
    restarts: int
    settings: Settings
    cv: float | None
    effect: float | None
    rows: int
    ready_path: str
    ready_timeout: float
    stop_timeout: float
    pause: float

    def server(self, side: Side) -> ServerPlan:
        """The server of a side."""
        return self.a if side == "a" else self.b


def read_plan(path: Path) -> AbbaPlan:
    """Read a plan file.

    Raises:
        BenchError: it cannot be read, is no TOML, or a key is missing, unknown or wrong; the message names it.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BenchError(f"Could not read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise BenchError(f"{path} is no TOML: {error}.") from error
    try:
        file = _File.model_validate(data)
    except ValidationError as error:
        raise BenchError(f"{path}: {' '.join(_sentences(error))}") from error
    measures = tuple(_measure(path, number, part) for number, part in enumerate(file.measure))
    names = [measure.name for measure in measures]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BenchError(f"{path}: two measures have the name {twice!r}; give each its own.")
    return AbbaPlan(
        a=_server(path, "a", file.a, file.url),
        b=_server(path, "b", file.b, file.url),
        measures=measures,
        restarts=_restarts(path, file),
        settings=Settings(
            metrics=tuple(file.metrics),
            margin=file.margin,
            alpha=file.alpha,
            paired=file.paired,
            floor=_floor(path, file.floor),
            force=file.force,
        ),
        cv=file.cv,
        effect=file.effect,
        rows=file.rows,
        ready_path="/" + file.ready_path.lstrip("/") if file.ready_path else "",
        ready_timeout=file.ready_timeout,
        stop_timeout=file.stop_timeout,
        pause=file.pause,
    )


def _sentences(error: ValidationError) -> list[str]:
    sentences = []
    for problem in error.errors():
        # A union names its branches behind the key.
        place = ".".join(str(part) for part in problem["loc"] if part not in ("list[str]", "constrained-str"))
        sentence = {
            "missing": f"The key {place} is missing.",
            "extra_forbidden": f"There is no key {place}; remove or correct it.",
        }.get(problem["type"], f"The key {place} is {problem['input']!r}: {problem['msg']}.")
        sentences.append(sentence)
    return sentences


def _server(path: Path, side: Side, part: _Server, url: str | None) -> ServerPlan:
    address = part.url or url
    if address is None:
        raise BenchError(
            f"{path}: The key url is missing; give one for both sides, or one in [a] and in [b]."
        )
    if not address.startswith(("http://", "https://")):
        raise BenchError(f"{path}: The url of [{side}] is {address!r}; give one like http://127.0.0.1:8000.")
    folder = (path.parent / part.folder).resolve() if part.folder else None
    if folder and not folder.is_dir():
        raise BenchError(f"{path}: The key {side}.folder names {folder}, which is no folder.")
    return ServerPlan(
        name=part.name,
        command=_words(path, f"{side}.command", part.command),
        env=tuple(sorted(part.env.items())),
        folder=folder,
        url=address.rstrip("/"),
    )


def _measure(path: Path, number: int, part: _Measure) -> MeasurePlan:
    key = f"measure.{number}.command"
    words = _words(path, key, part.command)
    words = words[1:] if words[0] == "penny-bench" else words
    if not words or words[0] not in ("decode", "run"):
        raise BenchError(
            f"{path}: The key {key} begins with {' '.join(words[:1])!r}; begin it with decode or run."
        )
    for option in ("--url", "--json"):
        if any(word == option or word.startswith(f"{option}=") for word in words):
            raise BenchError(
                f"{path}: The key {key} has {option}, which is added for each restart; leave it out."
            )
    return MeasurePlan(name=part.name, command=words, accept=tuple(part.accept), timeout=part.timeout)


def _words(path: Path, key: str, command: list[str] | str) -> tuple[str, ...]:
    try:
        words = shlex.split(command) if isinstance(command, str) else command
    except ValueError as error:
        raise BenchError(f"{path}: The key {key} is no command line: {error}.") from error
    return tuple(words)


def _restarts(path: Path, file: _File) -> int:
    if file.restarts is not None:
        return file.restarts
    if file.cv is None or file.effect is None:
        raise BenchError(
            f"{path}: The key restarts is missing; give it, or cv and effect, from which it follows."
        )
    return plan_comparison(
        file.cv, file.effect, alpha=file.alpha, paired=file.paired, rows=file.rows
    ).restarts


def _floor(path: Path, floor: dict[str, float] | None) -> dict[int, float] | None:
    try:
        return None if floor is None else {int(streams): time for streams, time in floor.items()}
    except ValueError as error:
        raise BenchError(
            f"{path}: The keys of floor are {', '.join(floor or {})}; give numbers of streams, 0 for any."
        ) from error
