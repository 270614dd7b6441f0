"""A NIXL agent with one backend: what the NIXL engine and the shared tier need of the library, and no more.

The package `nixl` takes the build for this machine's CUDA; the builds themselves are `nixl_cu13` and `nixl_cu12`, and
neither needs a GPU for files and objects. A process can import one of them only, and not every backend loads in every
build: OBJ of nixl-cu13 1.5.1 wants libcuobjclient.so.1, which no package has. So the build that was imported before is
used; else the one that PENNY_CACHE_NIXL names; else, for files, the one that `import nixl` would take, so that whoever
imports it later gets the same; and for objects the first that can do them. None is imported before there is an agent.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

BUILDS = ("nixl_cu13", "nixl_cu12")
"""Modules of NIXL's builds, in the order in which they are tried."""
CHOICE = "PENNY_CACHE_NIXL"
"""Environment variable that names a build."""
_ALL_MEMORY = (0, (1 << 64) - 1, 0, "")
"""The backends of files and objects keep nothing of memory, but the agent asks for its registration."""
_ANY_SIZE = 1 << 62

Kind = Literal["FILE", "OBJ"]
Piece = tuple[int, int, int]
"""Address in memory, bytes, and first byte in the file or object."""


class NixlMissing(Exception):  # noqa: N818
    """NIXL or one of its backends is not usable here; says why."""


class Agent:
    """One backend, and transfers between memory and what was registered with it.

    Every call may come from any thread; the agent is locked meanwhile. Only `query` waits for anything.

    Args:
        backend: name of the plugin.
        kind: what it moves memory to and from.
        parameters: of the plugin.

    Raises:
        NixlMissing: no installed build has a backend that starts.
    """

    def __init__(self, backend: str, kind: Kind, parameters: Mapping[str, str]) -> None:
        self._backend, self._kind = backend, kind
        self._guard = threading.Lock()
        self._registered: dict[int, Any] = {}
        self._name = f"penny-cache-{os.getpid()}-{id(self):x}"
        self._agent = _started(self._name, backend, parameters)
        self._agent.register_memory([_ALL_MEMORY], "DRAM")

    def register(self, number: int, name: str = "") -> None:
        """Make a file (by its descriptor) or an object (by any number, and its name) known.

        A number is one registration's own until `deregister`: no two that live at a time may share one.
        """
        with self._guard:
            self._registered[number] = self._agent.register_memory([(0, _ANY_SIZE, number, name)], self._kind)

    def deregister(self, number: int) -> None:
        """Forget it, if it is known; nothing may be under way to it. A file stays open."""
        with self._guard:
            known = self._registered.pop(number, None)
            if known is not None:
                self._agent.deregister_memory(known)

    def post(self, write: bool, number: int, pieces: Sequence[Piece]) -> Any:
        """Start to move pieces; the memory must stay until `done` is true.

        Raises:
            OSError: NIXL refused.
        """
        memory = self._agent.get_xfer_descs([(address, size, 0) for address, size, _ in pieces], "DRAM")
        places = self._agent.get_xfer_descs([(at, size, number) for _, size, at in pieces], self._kind)
        with self._guard:
            try:
                handle = self._agent.initialize_xfer("WRITE" if write else "READ", memory, places, self._name)
                self._agent.transfer(handle)
            except Exception as error:
                raise OSError(errno.EIO, f"NIXL did not start a transfer: {error}") from error
        return handle

    def done(self, handle: Any) -> bool:
        """Whether a transfer is over; its handle is no longer good then.

        Raises:
            OSError: it is over and failed, or moved less than all of its bytes. NIXL does not say why.
        """
        with self._guard:
            try:
                if self._agent.check_xfer_state(handle) == "PROC":
                    return False
            except Exception as error:
                self._agent.release_xfer_handle(handle)
                raise OSError(errno.EIO, f"A transfer of NIXL failed: {error}") from error
            self._agent.release_xfer_handle(handle)
        return True

    def query(self, names: Sequence[str]) -> list[bool]:
        """Whether there is an object of each name; waits for the answers.

        Raises:
            OSError: one of them was not answered.
        """
        with self._guard:
            try:
                found = self._agent.query_memory(
                    [(0, 0, 0, name) for name in names], self._backend, self._kind
                )
            except Exception as error:
                raise OSError(errno.EIO, f"NIXL's query for {len(names)} objects failed: {error}") from error
        return [one is not None for one in found]


def _started(name: str, backend: str, parameters: Mapping[str, str]) -> Any:
    build = _build(backend)
    try:
        api = importlib.import_module(f"{build}._api")
        if not os.environ.get("NIXL_LOG_LEVEL"):
            # NIXL prints what it does on stdout, where a command's result goes.
            logging.getLogger("nixl").setLevel(logging.ERROR)
        agent = api.nixl_agent(name, api.nixl_agent_config(enable_prog_thread=False, backends=[]))
        agent.create_backend(backend, dict(parameters))
    except Exception as error:
        raise NixlMissing(
            f"the backend {backend} of {build} does not start: {error}; {CHOICE} names another build, and is looked at "
            "before NIXL is imported"
        ) from error
    return agent


def _build(backend: str) -> str:
    """The build that was imported here, else the one that the environment names, else the first that has the backend.

    Raises:
        NixlMissing: none has it.
    """
    for build in BUILDS:
        if f"{build}._bindings" in sys.modules:
            return build
    if wanted := os.environ.get(CHOICE):
        return wanted
    reasons: list[str] = []
    for build in sorted(BUILDS, key=lambda build: build != _usual()):
        why = _plugin_error(build, backend) if backend == "OBJ" else _absence(build)
        if not why:
            return build
        reasons.append(f"{build} {why}")
    raise NixlMissing("; ".join(reasons))


def _usual() -> str:
    """The build that `import nixl` takes."""
    try:
        utils = importlib.import_module("nixl_meta_utils")
    except ImportError:
        return ""
    return f"nixl_cu{utils.detect_cuda_major()}"


def _absence(build: str) -> str:
    return "" if importlib.util.find_spec(build) else "is not installed"


def _plugin_error(build: str, backend: str) -> str:
    """Why a build's plugin cannot be loaded, found out in another process, for this one may need the other build."""
    found = importlib.util.find_spec(build)
    if found is None or found.origin is None:
        return "is not installed"
    plugin = Path(found.origin).parents[1] / f".{build}.mesonpy.libs" / "plugins" / f"libplugin_{backend}.so"
    if not plugin.exists():
        return f"has no backend {backend}"
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    command = [sys.executable, "-ISc", code, str(plugin)]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        return f"cannot be tried in a process of its own ({error})"
    if tried.returncode == 0:
        return ""
    said = tried.stderr.strip().splitlines() or [f"the attempt ended with {tried.returncode}"]
    return f"has a backend {backend} that does not load ({said[-1]})"
