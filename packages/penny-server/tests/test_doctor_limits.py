"""penny doctor under real limits of the kernel: mounts, a system call filter and resource limits around its process."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

LIMITED = Path(__file__).parent / "fakes" / "run_limited.py"
PENNY = [sys.executable, "-c", "from penny_server.cli import main; main()"]
NAMESPACES = shutil.which("unshare") is not None and (
    subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False)
).returncode == 0  # fmt: skip
needs_mounts = pytest.mark.skipif(not NAMESPACES, reason="This user may make no mount namespace.")


@dataclass(frozen=True)
class Line:
    state: str
    found: str
    fix: str


def doctor(home: Path, *args: str, before: tuple[str, ...] = (), mount: str = "") -> dict[str, list[Line]]:
    """The report by check; ``mount`` is a shell command that is done first, in a mount namespace of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [*before, *PENNY, "doctor", "tiny-27b", "--quick", "--json", "--port", port, *args]
    if mount:
        command = ["unshare", "-rm", "sh", "-ec", f"{mount}; exec {shlex.join(command)}"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    env = {**clean, "HOME": str(home), "TMPDIR": str(home / "tmp"), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    lines: dict[str, list[Line]] = {}
    for finding in json.loads(done.stdout)["findings"]:
        lines.setdefault(finding["check"], []).append(
            Line(finding["state"], finding["found"], finding["fix"])
        )
    assert (done.returncode == 3) == any(line.state == "fail" for found in lines.values() for line in found)
    return lines


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    for name in ("tmp", ".cache", "store"):
        (folder / name).mkdir()
    return folder


@pytest.fixture(scope="module")
def known(home: Path) -> set[tuple[str, str]]:
    """What this machine has without any seeded fault, which is the report once a fix was done."""
    found = {
        (check, line.state) for check, lines in doctor(home).items() for line in lines if line.state != "ok"
    }
    assert "fail" not in {state for _, state in found}
    # A store wants locked memory, of which many machines allow little.
    return found | {("limits.memlock", "warn")}


def new(report: dict[str, list[Line]], known: set[tuple[str, str]]) -> list[tuple[str, Line]]:
    return [
        (check, line)
        for check, lines in report.items()
        for line in lines
        if line.state != "ok" and (check, line.state) not in known
    ]


def only(report: dict[str, list[Line]], known: set[tuple[str, str]], check: str, state: str) -> Line:
    """The one finding that the machine does not have by itself."""
    found = new(report, known)
    assert [(name, line.state) for name, line in found] == [(check, state)]
    return found[0][1]


def limited(how: str) -> tuple[str, ...]:
    return sys.executable, str(LIMITED), how


def test_too_few_open_files(home: Path, known: set[tuple[str, str]]) -> None:
    report = doctor(home, before=limited("files"))
    line = only(report, known | {("limits.files", "warn")}, "limits.files", "fail")
    assert line.found.startswith("At most 512 files may be open")
    assert "ulimit -Hn 65535" in line.fix


def test_a_filter_of_system_calls_forbids_io_uring(home: Path, known: set[tuple[str, str]]) -> None:
    report = doctor(home, before=limited("no-io-uring"))
    line = only(report, known, "kernel.io_uring", "warn")
    assert "EPERM: a seccomp profile" in line.found
    assert "seccomp=unconfined" in line.fix
    with_store = doctor(home, "--set", f"store_dir={home}/store", before=limited("no-io-uring"))
    assert with_store["kernel.io_uring"][0].state == "fail"


@needs_mounts
def test_libraries_cannot_be_loaded_from_a_noexec_mount(home: Path) -> None:
    cuda = ("--device", "cuda")  # only a GPU's kernels are built and loaded
    here = {(check, line.state) for check, lines in doctor(home, *cuda).items() for line in lines}
    mount = f"mount -t tmpfs -o noexec,size=8g tmpfs {home}/.cache"
    line = only(doctor(home, *cuda, mount=mount), here, "folders.writable", "fail")
    assert f"{home}/.cache/sglang/triton (compiled kernels of Triton)" in line.found
    assert "is mounted noexec" in line.found
    assert "TRITON_CACHE_DIR" in line.fix
    fixed = doctor(home, *cuda, "--set", f"cache_dir={home}/store", mount=mount)
    assert new(fixed, here) == []


@needs_mounts
def test_a_cache_on_a_small_mount(home: Path, known: set[tuple[str, str]]) -> None:
    mount = f"mount -t tmpfs -o size=16m tmpfs {home}/.cache"
    line = only(doctor(home, mount=mount), known, "folders.space", "fail")
    assert line.found == f"{home}/.cache has 16 MiB free; caches take up to 256 MiB."
    assert "cache_dir" in line.fix
    assert new(doctor(home, "--set", f"cache_dir={home}/store", mount=mount), known) == []


@needs_mounts
def test_a_store_that_is_mounted_read_only(home: Path, known: set[tuple[str, str]]) -> None:
    # A bind mount keeps the file system, so that nothing but the flag is new.
    mount = f"mount --bind {home}/store {home}/store; mount -o remount,bind,ro {home}/store"
    line = only(
        doctor(home, "--set", f"store_dir={home}/store", mount=mount), known, "folders.writable", "fail"
    )
    assert "the file system is mounted read-only" in line.found
    assert new(doctor(home, "--set", f"store_dir={home}/tmp", mount=mount), known) == []


@needs_mounts
def test_the_shared_memory_of_a_container(home: Path, known: set[tuple[str, str]]) -> None:
    line = only(
        doctor(home, mount="mount -t tmpfs -o size=64m tmpfs /dev/shm"), known, "memory.shared", "warn"
    )
    assert line.found.startswith("/dev/shm has 64 MiB free")
    assert "--shm-size 16g" in line.fix
    assert new(doctor(home, mount="mount -t tmpfs -o size=16g tmpfs /dev/shm"), known) == []


@needs_mounts
def test_a_store_in_memory_is_lost_at_a_restart(home: Path, known: set[tuple[str, str]]) -> None:
    mount = f"mount -t tmpfs -o size=64g tmpfs {home}/store"
    line = only(doctor(home, "--set", f"store_dir={home}/store", mount=mount), known, "folders.kind", "warn")
    assert line.found == f"{home}/store (the cache store) is on tmpfs, which is lost at a restart."
