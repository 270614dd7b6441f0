"""What is kept of a comparison under way, so that it can go on."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import penny_bench
from penny_bench.abba.plan import AbbaPlan, Side
from penny_bench.errors import BenchError
from penny_bench.evidence import redact
from penny_bench.report import write_json
from penny_bench.stats import abba

SCHEMA = "penny-bench/abba/1"
FREE = ("cv", "effect", "rows", "ready_path", "ready_timeout", "stop_timeout", "pause")
"""Parts of a plan that may change when it goes on: none of them alters what is measured or concluded."""


@dataclass(frozen=True)
class Step:
    """One start of a server: its side and its number on that side, from 1."""

    side: Side
    number: int

    @property
    def name(self) -> str:
        """Such as `a/01`, which is also its folder."""
        return f"{self.side}/{self.number:02}"


def steps(restarts: int) -> list[Step]:
    """All starts in ABBA order."""
    counts = {"a": 0, "b": 0}
    made = []
    for letter in abba(restarts):
        side: Side = "a" if letter == "A" else "b"
        counts[side] += 1
        made.append(Step(side, counts[side]))
    return made


class Record:
    """The folder of a comparison: `a/01`, `b/01`, ... with results and logs, and `abba.json`.

    Attributes:
        folder: the whole.
        running: folder of the restart that is under way.
    """

    def __init__(self, folder: Path, plan: AbbaPlan) -> None:
        """Open the folder, made if it is missing, for a new comparison or to go on with the same plan.

        Raises:
            BenchError: it holds something else or another plan, or cannot be written.
        """
        self.folder, self.running = folder, folder / "running"
        self._file = folder / "abba.json"
        self._plan, self._digests = plan_fields(plan), plan_digests(plan)
        self._steps: list[dict[str, Any]] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            found = {path.name for path in folder.iterdir()}
        except OSError as error:
            raise BenchError(f"Could not make the folder {folder}: {error.strerror}.") from error
        if self._file.name in found:
            self._read()
        elif found:
            raise BenchError(
                f"The folder {folder} holds {min(found)} and no comparison to go on with; give an empty or a new "
                f"folder with --out."
            )
        self.save()

    def finished(self, step: Step) -> bool:
        """Whether the restart was measured whole."""
        return (self.folder / step.name).is_dir()

    def done(self, side: Side, restarts: int) -> list[Path]:
        """Folders of the finished restarts of a side, in the order of time."""
        return [
            self.folder / step.name for step in steps(restarts) if step.side == side and self.finished(step)
        ]

    def begin(self) -> Path:
        """An empty folder for a restart; what an interrupted one left there is removed."""
        if self.running.exists():
            shutil.rmtree(self.running)
        self.running.mkdir()
        return self.running

    def finish(self, step: Step, started: datetime, ready: float) -> None:
        """Give the folder under way its name: from now on the restart counts.

        Args:
            step: which it was.
            started: when its server was started.
            ready: how long that took until it answered, s.
        """
        target = self.folder / step.name
        target.parent.mkdir(exist_ok=True)
        self.running.rename(target)
        self._steps.append(
            {
                "step": step.name,
                "started": started.isoformat(timespec="seconds"),
                "ready_seconds": round(ready, 1),
                "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            }
        )
        self.save()

    def save(self) -> None:
        """Write `abba.json`."""
        document = {
            "schema": SCHEMA,
            "penny_bench": penny_bench.__version__,
            "plan": self._plan,
            "digests": self._digests,
            "steps": self._steps,
        }
        write_json(self._file, document)

    def _read(self) -> None:
        try:
            read = json.loads(self._file.read_text(encoding="utf-8"))
            before, self._steps = dict(read["digests"]), list(read["steps"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BenchError(
                f"{self._file} cannot be read ({error}); give another folder with --out."
            ) from error
        changed = [key for key, digest in self._digests.items() if before.get(key) != digest]
        if changed:
            raise BenchError(
                f"The plan has changed in {', '.join(changed)} since {self.folder} was begun, so its restarts are not "
                f"of one comparison; restore the plan, or begin anew with --out."
            )


def plan_fields(plan: AbbaPlan) -> dict[str, Any]:
    """The plan as JSON, without secrets and with absolute paths cut to their last part."""
    fields: dict[str, Any] = json.loads(json.dumps(asdict(plan), default=str))
    for side in ("a", "b"):
        fields[side]["command"] = redact.command(fields[side]["command"])
        fields[side]["env"] = {name: hide(name, value) for name, value in fields[side]["env"]}
        fields[side]["folder"] = fields[side]["folder"] and redact.text(fields[side]["folder"])
    for measure in fields["measures"]:
        measure["command"] = redact.command(["penny-bench", *measure["command"]])
    return fields


def plan_digests(plan: AbbaPlan) -> dict[str, str]:
    """A digest of each part that may not change while a comparison is under way; values of secrets may."""
    fields = asdict(plan)
    for side in ("a", "b"):
        fields[side]["env"] = [
            (name, "" if is_secret(name) else value) for name, value in fields[side]["env"]
        ]
    return {
        key: hashlib.sha256(json.dumps(value, default=str).encode()).hexdigest()
        for key, value in fields.items()
        if key not in FREE
    }


def is_secret(name: str) -> bool:
    """Whether the name of a variable tells of a secret."""
    return any(word in name.upper() for word in ("KEY", "TOKEN", "SECRET", "PASSWORD"))


def hide(name: str, value: str) -> str:
    """The value of a variable, unless its name tells of a secret."""
    return redact.HIDDEN if is_secret(name) else redact.text(value)
