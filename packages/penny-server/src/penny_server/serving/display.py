"""How a start looks: a live table on a terminal, a line per phase in a file, JSON lines for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from penny_server.errors import PennyError
from penny_server.profiles import Launch
from penny_server.serving.phases import Phase, Progress
from penny_server.serving.reality import Row, sentence
from penny_server.serving.rundir import RunDir

MARKS = {"waiting": " ", "done": "[green]✓[/]", "skipped": "[dim]-[/]", "failed": "[red]✗[/]"}


class Display(Protocol):
    """What the supervisor tells the person or program that watches the start."""

    def opening(self, launch: Launch, run_dir: RunDir) -> None:
        """The server process is about to start."""

    def update(self, progress: Progress) -> None:
        """Called about ten times a second until the start is over."""

    def planned(self, rows: Sequence[Row]) -> None:
        """How the server compares with its plan; comes before `ready`."""

    def ready(self, launch: Launch, seconds: float) -> None:
        """The server answers; ``seconds`` since the command began."""

    def failed(self, error: PennyError, tail: list[str], run_dir: RunDir) -> None:
        """The server ended while starting or, later, by itself."""

    def stopping(self, why: str) -> None:
        """The server is asked to end."""

    def stopped(self) -> None:
        """Nothing of the server is left."""

    def close(self) -> None:
        """Gives the terminal back."""


def built(progress: Progress) -> str:
    """What was compiled during the start; empty when nothing was."""
    if not progress.built:
        return ""
    seconds = f" in {progress.built_s:.0f} s" if progress.built_s else ""
    return f"{progress.built} kernels compiled{seconds}; the next start finds them in the caches."


def curl(launch: Launch) -> str:
    """A command to paste that asks the server something."""
    body = {"model": launch.model_name, "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 64}
    text = json.dumps(body).replace("'", "'\\''")
    return f"curl {launch.url}/v1/chat/completions -H 'Content-Type: application/json' -d '{text}'"


class PlainDisplay:
    """One line when a phase is over; for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: set[str] = set()
        self._backends: dict[str, str] = {}
        self._rows: Sequence[Row] = ()
        self._built = ""

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def opening(self, launch: Launch, run_dir: RunDir) -> None:
        self._print(f"Starting {launch.profile} on {launch.device}, log: {run_dir.log}")

    def update(self, progress: Progress) -> None:
        self._backends, self._built = progress.backends, built(progress)
        for phase in progress.phases:
            if phase.state in ("done", "failed") and phase.name not in self._shown:
                self._shown.add(phase.name)
                self._print(f"{phase.name:9} {phase.seconds(0):6.1f} s  {phase.state}  {phase.note}".rstrip())

    def planned(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def ready(self, launch: Launch, seconds: float) -> None:
        for operation, backend in self._backends.items():
            self._print(f"  {operation:26} {backend}")
        for row in self._rows:
            planned, found = row.text(row.planned), row.text(row.found)
            self._print(f"  {row.name:26} {found:>18}, planned {planned:>18} ({row.difference:+.1%})")
            if row.why:
                self._print(f"    {row.why}")
        if self._built:
            self._print(f"  {self._built}")
        self._print(f"Ready in {seconds:.1f} s: {launch.url} serves {launch.model_name}")
        self._print(curl(launch))
        self._print(f"penny chat --url {launch.url}")

    def failed(self, error: PennyError, tail: list[str], run_dir: RunDir) -> None:
        if tail:
            self._print(f"The last {len(tail)} lines of {run_dir.log}:")
            self._print("\n".join(f"  {line}" for line in tail))

    def stopping(self, why: str) -> None:
        self._print(f"{why}: stopping the server (again to stop it at once).")

    def stopped(self) -> None:
        self._print("Stopped; nothing is left running.")

    def close(self) -> None:
        """Nothing to give back."""


class JsonDisplay:
    """One JSON object per line, for programs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._states: dict[str, str] = {}
        self._backends: dict[str, str] = {}
        self._fractions: dict[str, float] = {}
        self._compiled = 0

    def _print(self, **event: Any) -> None:
        self._console.print(json.dumps(event), markup=False, highlight=False, soft_wrap=True)

    def opening(self, launch: Launch, run_dir: RunDir) -> None:
        self._print(event="start", profile=launch.profile, device=launch.device, run_dir=str(run_dir.path))

    def update(self, progress: Progress) -> None:
        if progress.backends != self._backends:
            self._backends = dict(progress.backends)
            self._print(event="backends", resolved=self._backends)
        if progress.built > self._compiled:
            self._compiled = progress.built
            self._print(
                event="kernels", built=progress.built, seconds=progress.built_s, name=progress.building
            )
        for phase in progress.phases:
            if phase.fraction is not None and phase.fraction != self._fractions.get(phase.name):
                self._fractions[phase.name] = phase.fraction
                fraction = round(phase.fraction, 4)
                self._print(event="progress", phase=phase.name, fraction=fraction, note=phase.note)
            if phase.state != "waiting" and self._states.get(phase.name) != phase.state:
                self._states[phase.name] = phase.state
                seconds = round(phase.seconds(time.time()), 3)
                self._print(event="phase", phase=phase.name, state=phase.state, seconds=seconds)

    def planned(self, rows: Sequence[Row]) -> None:
        if rows:
            self._print(event="plan", rows=[row.document() for row in rows])

    def ready(self, launch: Launch, seconds: float) -> None:
        self._print(event="ready", url=launch.url, model=launch.model_name, seconds=round(seconds, 3))

    def failed(self, error: PennyError, tail: list[str], run_dir: RunDir) -> None:
        self._print(event="log", path=str(run_dir.log), tail=tail)

    def stopping(self, why: str) -> None:
        self._print(event="stopping", why=why)

    def stopped(self) -> None:
        self._print(event="stopped")

    def close(self) -> None:
        """Nothing to give back."""


class LiveDisplay(PlainDisplay):
    """A table that changes in place, for a terminal."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def opening(self, launch: Launch, run_dir: RunDir) -> None:
        self._console.print(f"[bold]{escape(launch.profile)}[/] on {launch.device}", highlight=False)
        self._console.print(f"[dim]log {escape(str(run_dir.log))}[/]", highlight=False, soft_wrap=True)
        self._live.start()

    def update(self, progress: Progress) -> None:
        self._backends, self._built = progress.backends, built(progress)
        if self._live.is_started:
            self._live.update(self._table(progress), refresh=True)

    def ready(self, launch: Launch, seconds: float) -> None:
        self.close()
        self._console.print()
        if self._backends:
            chosen = Table.grid(padding=(0, 2))
            for operation, backend in self._backends.items():
                chosen.add_row(f"[dim]{escape(operation)}[/]", f"[dim]{escape(backend)}[/]")
            self._console.print(chosen, highlight=False)
            self._console.print()
        self._print_plan()
        rows = Table.grid(padding=(0, 2))
        rows.add_row("[green]ready[/]", f"[bold]{escape(launch.url)}[/]  [dim]in {seconds:.1f} s[/]")
        rows.add_row("model", escape(launch.model_name))
        rows.add_row("chat", f"penny chat --url {escape(launch.url)}")
        rows.add_row("stop", "Ctrl-C")
        self._console.print(rows, highlight=False)
        self._console.print()
        self._print(curl(launch))

    def _print_plan(self) -> None:
        if self._rows:
            table = Table(
                "", "found", "planned", "", box=None, pad_edge=False, padding=(0, 2, 0, 0), style="dim"
            )
            for row in self._rows:
                table.add_row(row.name, row.text(row.found), row.text(row.planned), f"{row.difference:+.1%}")
            self._console.print(table, highlight=False)
            for row in self._rows:
                if row.why:
                    self._console.print(Text(sentence(row), style="yellow"))
        if self._built:
            self._console.print(Text(self._built, style="dim"))
        if self._rows or self._built:
            self._console.print()

    def failed(self, error: PennyError, tail: list[str], run_dir: RunDir) -> None:
        self.close()
        super().failed(error, tail, run_dir)

    def stopping(self, why: str) -> None:
        self.close()
        self._console.print()
        super().stopping(why)

    def close(self) -> None:
        if self._live.is_started:
            self._live.stop()

    def _table(self, progress: Progress) -> RenderableType:
        now = time.time()
        table = Table.grid(padding=(0, 1))
        table.add_column(width=1)
        table.add_column(width=9)
        table.add_column(width=8, justify="right")
        table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        for phase in progress.phases:
            if phase.state == "running" and progress.building and phase.fraction is None:
                phase = replace(phase, note=f"{progress.built} kernels compiled, now {progress.building}")
            mark: RenderableType = self._spinner if phase.state == "running" else MARKS[phase.state]
            dim = phase.state in ("waiting", "skipped")
            name = Text(phase.name, style="dim" if dim else "bold" if phase.state == "running" else "")
            table.add_row(mark, name, "" if dim else f"{phase.seconds(now):.1f} s", self._detail(phase))
        total = Text(f"{now - progress.started:.1f} s", style="dim")
        table.add_row("", Text("total", style="dim"), total, "")
        return Group(table)

    def _detail(self, phase: Phase) -> RenderableType:
        if phase.state == "running" and phase.fraction is not None:
            bar = Table.grid(padding=(0, 1))
            note = Text(phase.note, style="dim")
            bar.add_row(
                ProgressBar(total=1.0, completed=phase.fraction, width=24), f"{phase.fraction:4.0%}", note
            )
            return bar
        return Text(phase.note, style="dim")
