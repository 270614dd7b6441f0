"""PLAN.toml: which server, which workloads, and what they must reach."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from penny_bench.errors import BenchError


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Mark(_Part):
    """What a number of a run must reach; one of the first four names the number.

    Attributes:
        metric: `phase/key` of a metric, such as `C1/stream`, or `key` for one of the whole run.
        checks: a pattern of cases, `*` for all: the share of their checks that passed, from 0 to 1. Checks that
            wait for a person do not count.
        points: a pattern of cases: the points they earned.
        failures: true for the number of failed requests.
        at_least, at_most: the mark; one or both.
    """

    metric: str | None = None
    checks: str | None = None
    points: str | None = None
    failures: bool = False
    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _one_number_and_a_mark(self) -> Self:
        named = [self.metric is not None, self.checks is not None, self.points is not None, self.failures]
        if sum(named) != 1:
            raise ValueError("name one of metric, checks, points and failures")
        if self.at_least is None and self.at_most is None:
            raise ValueError("give at_least or at_most")
        return self

    @property
    def what(self) -> str:
        """The number in words."""
        if self.metric is not None:
            return self.metric
        if self.failures:
            return "failed requests"
        return f"checks passed ({self.checks})" if self.checks is not None else f"points ({self.points})"

    @property
    def limit(self) -> str:
        """The mark in words."""
        low = "" if self.at_least is None else f"at least {self.at_least:g}"
        high = "" if self.at_most is None else f"at most {self.at_most:g}"
        return " and ".join(filter(None, (low, high)))


class PlannedRun(_Part):
    """One run of the plan.

    Attributes:
        workload: a shipped name, or a TOML file beside the plan.
        name: of the run, and of its result file; else that of the workload.
        set: settings that replace those of the workload.
        seed: of its prompts; without, one that is drawn, so that no cache knows them from another run.
        allow_cached: whether a prefix cache may take part.
        marks: what it must reach. That no request fails is always one, unless a mark says otherwise.
    """

    workload: str
    name: str = Field(default="", pattern=r"^[A-Za-z0-9._-]*$")
    set: dict[str, Any] = {}
    seed: int | None = Field(default=None, ge=0)
    allow_cached: bool = False
    marks: tuple[Mark, ...] = Field(default=(), alias="mark")

    @property
    def title(self) -> str:
        """Its name, or that of the workload."""
        return self.name or Path(self.workload).stem


class QualificationPlan(_Part):
    """A plan.

    Attributes:
        title: of the page.
        url: address of the server.
        model: model name; else the first that the server lists.
        timeout: longest silence of the server, s.
        text: paragraphs for the page, in Markdown.
        floor: best values that are possible, by metric.
        runs: in order.
    """

    title: str = Field(min_length=1)
    url: str
    model: str | None = None
    timeout: float = Field(default=600.0, gt=0)
    text: str = ""
    floor: dict[str, float] = {}
    runs: tuple[PlannedRun, ...] = Field(alias="run", min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [run.title for run in self.runs]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two runs are called {twice!r}; give each its own name")
        return self


def read_plan(path: Path) -> QualificationPlan:
    """Read a plan.

    Raises:
        BenchError: it cannot be read or is wrong; the message names the place.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"The plan {path} cannot be read ({error}); correct the path.") from error
    except tomllib.TOMLDecodeError as error:
        raise BenchError(f"The plan {path} is not TOML ({error}).") from error
    try:
        return QualificationPlan.model_validate(data)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"]) or "the whole"
        raise BenchError(f"The plan {path} is wrong at {place}: {problem['msg']}.") from error
