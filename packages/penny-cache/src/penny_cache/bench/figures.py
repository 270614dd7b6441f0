"""Results of a run: as data for programs, and as a table for people."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.table import Table

from penny_cache.bench.bandwidth import Paired
from penny_cache.bench.geometry import Geometry
from penny_cache.bench.millions import Millions


@dataclass
class Figures:
    """What one run measured.

    Attributes:
        geometry: of the pages.
        directory: that was measured.
        paired: by kind (`restore`, `write-through`) and engine.
        millions: figures of many bundles; None if that was not asked for.
    """

    geometry: Geometry
    directory: Path
    paired: dict[tuple[str, str], Paired] = field(default_factory=dict)
    millions: Millions | None = None

    def data(self, command: str) -> dict[str, Any]:
        """As JSON; `command` is how to run it again."""
        paired = [
            {
                "what": what, "engine": engine, **asdict(pair), "share": pair.share,
                "bytes_per_second": pair.median, "drive_bytes_per_second": pair.drive_median,
            }
            for (what, engine), pair in self.paired.items()
        ]  # fmt: skip
        return {
            "command": command,
            "penny_cache": version("penny-cache"),
            "python": platform.python_version(),
            "kernel": platform.release(),
            "cores": os.cpu_count(),
            "file_system": file_system(self.directory),
            "geometry": {
                "name": self.geometry.name,
                "page": dict(self.geometry.page),
                "snapshot": dict(self.geometry.snapshot),
            },
            "paired": paired,
            "millions": asdict(self.millions) if self.millions else None,
        }

    def tables(self) -> list[Table]:
        """For a terminal."""
        made = []
        if self.paired:
            table = _table("", "engine", "payload", "MB/s", "drive MB/s", "share", "least share")
            for (what, engine), pair in self.paired.items():
                table.add_row(
                    what, engine, f"{pair.payload / 1e6:,.0f} MB", f"{pair.median / 1e6:,.0f}",
                    f"{pair.drive_median / 1e6:,.0f} ({pair.by}, depth {pair.depth})", f"{pair.share:.2f}",
                    f"{min(pair.shares):.2f}",
                )  # fmt: skip
            made.append(table)
        if self.millions:
            m = self.millions
            table = _table(f"{m.bundles:,} bundles", "")
            for what, value in (
                (f"lookup of {m.pages:,} pages", f"{m.lookup_s * 1000:.1f} ms"),
                ("the same, keys to be hashed", f"{m.lookup_hashed_s * 1000:.1f} ms"),
                ("resident memory", f"{m.bytes_a_bundle:.0f} bytes a bundle"),
                ("clean open", f"{m.clean_open_s:.2f} s"),
                (f"open after a kill, {m.killed_bytes / 1e6:,.0f} MB not sealed", f"{m.killed_open_s:.2f} s"),
            ):
                table.add_row(what, value)
            made.append(table)
        return made


def file_system(directory: Path) -> str:
    """Kind of the file system that a directory is on, by /proc/self/mounts; empty where that does not say."""
    best, kind = "", ""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, found, *_ = line.split()
        inside = directory.resolve().is_relative_to(mount.replace("\\040", " "))
        if inside and len(mount) >= len(best):
            best, kind = mount, found
    return kind


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="left" if name == "engine" else "right")
    return table
