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
    """Every folder that the server would write in."""
    environ = case.environ
    home = Path(environ.get("HOME") or Path.home())
    found = [
        Place(
            "temporary files", Path(environ.get("TMPDIR") or "/tmp"), GIB if case.cuda else 64 * MIB, "TMPDIR"
        ),
        Place("run folders", runs_folder(), 64 * MIB, "XDG_STATE_HOME"),
        Place("caches", Path(environ.get("XDG_CACHE_HOME") or home / ".cache"), 256 * MIB, "cache_dir"),
        *(_kernels(environ, home) if case.cuda else ()),
    ]
    if store := case.option("store_dir"):
        found.append(Place("the cache store", Path(str(store)).expanduser(), _store(case), "store_dir"))
    return tuple(found)


def _kernels(environ: Mapping[str, str], home: Path) -> tuple[Place, ...]:
    """Where kernels are compiled to; SGLang moves the caches of others into its own (``environ.py``).

    The sizes are assumed: a start on a GPU builds some 4 GiB of objects and libraries.
    """
    base = Path(environ.get("SGLANG_CACHE_DIR") or home / ".cache" / "sglang")

    def place(whose: str, variable: str, default: str, size: int, below: str = "") -> Place:
        folder = Path(environ.get(variable) or base / default) / below
        return Place(f"compiled kernels of {whose}", folder, size, variable, code=True)

    return (
        place("SGLang", "SGLANG_JIT_CACHE_DIR", "jit", 256 * MIB),
        place("Triton", "TRITON_CACHE_DIR", "triton", GIB),
        place("torch", "TORCHINDUCTOR_CACHE_DIR", "inductor", 256 * MIB),
        place("FlashInfer", "FLASHINFER_WORKSPACE_BASE", "", 3 * GIB, ".cache/flashinfer"),
    )


def _store(case: Case) -> int:
    """Room for one request of the whole context with its states."""
    if case.plan is None:
        return 16 * GIB
    host = case.plan.host
    return case.plan.need.context * host.token_bytes + case.plan.pool.slots * host.slot_bytes
