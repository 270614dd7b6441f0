"""The folders that a launch reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penny_server.doctor.base import GIB, MIB, Case
from penny_server.serving.rundir import runs_folder


@dataclass(frozen=True)
class Place:
    """A folder to write in: what for, the bytes that should be free, and what sets it. ``code`` is loaded from it."""

    purpose: str
    path: Path
    wanted: int
    setting: str
    code: bool = False


def places(case: Case) -> tuple[Place, ...]:
    """Every folder that the server would write in; those that lie in one another once."""
    environ = case.environ
    home = Path(environ.get("HOME") or Path.home())
    user_cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    # A CUDA start builds attention, sampling and expert kernels: some 4 GiB of objects and libraries.
    build = 4 * GIB if case.cuda else 256 * MIB
    found = [
        Place("temporary files", Path(environ.get("TMPDIR") or "/tmp"), GIB, "TMPDIR", code=True),
        Place("run folders", runs_folder(), 64 * MIB, "XDG_STATE_HOME"),
        Place("caches", user_cache, build, "cache_dir", code=True),
    ]
    if case.cuda:
        found += [
            Place("compiled kernels of Triton", _triton(environ, home), GIB, "TRITON_CACHE_DIR", code=True),
            Place(
                "compiled kernels of FlashInfer",
                Path(environ.get("FLASHINFER_WORKSPACE_BASE") or home) / ".cache" / "flashinfer",
                build,
                "FLASHINFER_WORKSPACE_BASE",
                code=True,
            ),
        ]
    if store := case.option("store_dir"):
        found.append(Place("the cache store", Path(str(store)).expanduser(), _store(case), "store_dir"))
    return tuple(found)


def _triton(environ: Mapping[str, str], home: Path) -> Path:
    folder = environ.get("TRITON_CACHE_DIR")
    return Path(folder) if folder else Path(environ.get("TRITON_HOME") or home) / ".triton" / "cache"


def _store(case: Case) -> int:
    """Room for one request of the whole context with its states."""
    if case.plan is None:
        return 16 * GIB
    host = case.plan.host
    return case.plan.need.context * host.token_bytes + case.plan.pool.slots * host.slot_bytes
