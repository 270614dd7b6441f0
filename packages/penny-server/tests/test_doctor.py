"""penny doctor: healthy machines, what it reads, and that it changes nothing."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penny_models import tiny
from penny_server.doctor import CHECKS, Case, examine, read_facts
from penny_server.doctor.checks.gates import gates_of
from penny_server.doctor.checks.plan import coverage
from penny_server.doctor.facts import GpuProcess, Node, Rate
from penny_server.doctor.read import groups
from penny_server.doctor.read.disk import BLOCK, read_folder, read_rate, write_rate
from penny_server.doctor.read.gpu import numa_node, visible
from penny_server.doctor.read.host import cpu_list

_spec = importlib.util.spec_from_file_location("machines", Path(__file__).parent / "fakes" / "machines.py")
assert _spec is not None
assert _spec.loader is not None
m: Any = importlib.util.module_from_spec(_spec)
sys.modules["machines"] = m
_spec.loader.exec_module(m)

GIB = m.GIB
PENNY = [sys.executable, "-c", "from penny_server.cli import main; main()"]
NODES = {0: Node(frozenset(range(8)), 128 * GIB), 1: Node(frozenset(range(8, 16)), 128 * GIB)}
SATA = {"write_rate": lambda path: Rate(0.53e9, 0.5e9), "read_rate": lambda path: Rate(read=0.53e9)}
DESKTOP = m.pro_6000(free=97_887 * m.MIB - 900 * m.MIB, processes=(GpuProcess(900, "Xorg", 900 * m.MIB),))

HEALTHY: dict[str, Callable[[], Any]] = {
    "CPU, tiny": lambda: m.Ground(m.facts(host=m.host(16))),
    "CPU, tiny, in a container of 4 GiB": lambda: m.Ground(
        m.facts(host=m.host(64, group_limit=4 * GIB, group_used=GIB // 2))
    ),
    "CPU, tiny, 2 processors, no swap": lambda: m.Ground(
        m.facts(host=m.host(8, cpus=frozenset({0, 1}), cpu_quota=2.0))
    ),
    "CPU, tiny, memlock 8 MiB": lambda: m.Ground(m.facts(host=m.host(16, memlock=8 * m.MIB))),
    "PRO 6000, tiny": lambda: m.Ground(m.facts(m.pro_6000(), host=m.host(64))),
    "H200, tiny": lambda: m.Ground(m.facts(m.h200())),
    "PRO 6000 at 600 W, 27B": lambda: m.Ground(m.facts(m.pro_6000(), host=m.host(64)), "qwen38-27b"),
    "Max-Q at 300 W, 27B": lambda: m.Ground(m.facts(m.pro_6000(300), host=m.host(128)), "qwen38-27b"),
    "PRO 6000 held at 300 of 600 W, 27B": lambda: m.Ground(
        m.facts(m.pro_6000(600, power_limit=300.0)), "qwen38-27b"
    ),
    "PRO 6000 with a desktop, 27B": lambda: m.Ground(m.facts(DESKTOP), "qwen38-27b"),
    "PRO 6000 on PCIe 4 x4 (OCuLink), 27B": lambda: m.Ground(
        m.facts(m.pro_6000(link_width=4, link_generation=4), host=m.host(128)), "qwen38-27b"
    ),
    "two PRO 6000, 27B on one": lambda: m.Ground(m.facts(m.pro_6000(), m.pro_6000()), "qwen38-27b"),
    "27B with DFlash2, 128 GiB": lambda: m.Ground(
        m.facts(m.pro_6000(), host=m.host(128)), "qwen38-27b-dflash2", without=m.UNBUILT
    ),
    "27B with DFlash2, 64 GiB, HiCache of 32 GB": lambda: m.Ground(
        m.facts(m.pro_6000(), host=m.host(64)), "qwen38-27b-dflash2", {"hicache_size": "32"}, m.UNBUILT
    ),
    "Swift 27B, 256 GiB": lambda: m.Ground(m.facts(m.pro_6000()), "swift-27b", without=m.UNBUILT),
    "Flash-Next, 125 GB": lambda: m.Ground(
        m.facts(m.pro_6000(300), host=m.host(116)), "flash-next", without=m.UNBUILT
    ),
    "Flash-Next with FR-Spec, 256 GiB": lambda: m.Ground(
        m.facts(m.pro_6000()),
        "flash-next-frspec",
        {"speculative_token_map": str(tiny.token_map("tiny-next-2k"))},
        m.UNBUILT,
    ),
    "Flash-Next in a container, memlock unlimited": lambda: m.Ground(
        m.facts(m.pro_6000(), host=m.host(192, group_limit=160 * GIB, group_used=GIB, memlock=None)),
        "flash-next",
        without=m.UNBUILT,
    ),
    "Flash-Next on two GPUs and two NUMA nodes": lambda: m.Ground(
        m.facts(m.pro_6000(), m.pro_6000(node=1), host=m.host(256, nodes=NODES)),
        "flash-next",
        {"tp_size": "2"},
        m.UNBUILT,
    ),
    "Flash-Next, checkpoint and store on SATA": lambda: m.Ground(
        m.facts(m.pro_6000(), **SATA), "flash-next", {"store_dir": "/srv/store"}, m.UNBUILT
    ),
    "ready-made kernels, no nvcc": lambda: m.Ground(
        m.facts(m.pro_6000(), tools=m.Tools("", (0, 0), "/usr/bin/gcc", "/usr/bin/c++", "/usr/bin/ninja", True, True)),
        "qwen38-27b",
    ),
}  # fmt: skip


def test_there_are_twenty_healthy_machines() -> None:
    assert len(HEALTHY) >= 20


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_machine_gives_no_fail(name: str) -> None:
    findings = HEALTHY[name]().look(CHECKS)
    assert [f"{f.check}: {f.found}" for f in findings if f.state == "fail"] == []
    assert {f.check for f in findings} > {"install.seams", "plan.pool", "memory.host", "network.port"}


def test_without_a_profile_only_the_machine_is_looked_at() -> None:
    findings = list(examine(Case(m.facts(m.pro_6000()))))
    assert {f.state for f in findings} == {"ok"}
    assert "plan.pool" not in {f.check for f in findings}


def test_names_are_unique_and_every_check_says_what_it_is_about() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    assert all(check.about and check.name.count(".") == 1 for check in CHECKS)


def test_every_check_is_in_the_docs() -> None:
    pages = [folder / "docs" / "doctor.md" for folder in Path(__file__).parents]
    page = next((page for page in pages if page.is_file()), None)
    if page is None:
        pytest.skip("The docs are not beside an installed wheel.")
    text = page.read_text()
    assert [check.name for check in CHECKS if f"`{check.name}`" not in text] == []


def penny(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PENNY, *args],
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200", **env},
        stdin=subprocess.DEVNULL,
        check=False,
    )


def _snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


def test_it_changes_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for folder in ("tmp", "store", ".cache/triton", "work"):
        (home / folder).mkdir(parents=True)
    (home / "store" / "other").write_bytes(b"kept")
    before, times = _snapshot(home), {p: p.stat().st_mtime_ns for p in (home, tmp_path)}
    script = (
        "import os, resource, sys\n"
        "before = dict(os.environ), os.getcwd(), resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "files = set(os.listdir('/proc/self/fd'))\n"
        "from penny_server.cli.run import run\n"
        f"store = 'store_dir={home}/store'\n"
        f"code = run(['doctor', 'tiny-27b', '--port', '{m.free_port()}', '--set', store, '--json'])\n"
        "after = dict(os.environ), os.getcwd(), resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "print('same' if before == after and files >= set(os.listdir('/proc/self/fd')) else 'changed', code)"
    )
    places = {
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    clean = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")}
    printed = subprocess.run(
        [sys.executable, "-c", script],
        cwd=home / "work",
        env=clean | places,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed.splitlines()[-1] == "same 0"
    document = json.loads(printed[: printed.rindex("}") + 1])
    assert document["fail"] == 0
    rate = next(f for f in document["findings"] if f["check"] == "disk.rate")
    assert f"{home}/store (the cache store)" in rate["found"]
    assert "written" in rate["found"]
    # A file without a name leaves no trace in its folder, not even the folder's time of change.
    assert _snapshot(home) == before
    assert {p: p.stat().st_mtime_ns for p in (home, tmp_path)} == times


def test_exit_codes_and_table(tmp_path: Path) -> None:
    good = penny("doctor", "tiny-27b", "--quick", "--port", str(m.free_port()))
    assert good.returncode == 0, good.stdout + good.stderr
    assert "0 fail" in good.stdout
    assert "disk.rate" not in good.stdout
    missing = ("--model", str(tmp_path / "nothing"), "--port", str(m.free_port()))
    bad = penny("doctor", "tiny-27b", "--quick", *missing)
    assert bad.returncode == 3
    assert "fail  model.checkpoint" in bad.stdout
    assert "A start of tiny-27b would fail: 1 fail" in bad.stdout
    unknown = penny("doctor", "tiny-28b")
    assert unknown.returncode == 2
    assert "Did you mean 'tiny-27b'?" in unknown.stderr


def test_it_imports_neither_torch_nor_sglang() -> None:
    script = (
        "import sys\nfrom penny_server.cli.run import run\n"
        f"code = run(['doctor', 'tiny-27b', '--quick', '--json', '--port', '{m.free_port()}'])\n"
        "print(code, sorted({'torch', 'sglang', 'transformers', 'triton'} & set(sys.modules)))"
    )
    printed = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert printed.splitlines()[-1] == "0 []"


def test_rates_are_of_whole_blocks_and_leave_nothing(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(bytes(8 * BLOCK))
    rates = write_rate(tmp_path, 0.05), read_rate(file, 0.05)
    assert rates[0].write is not None
    assert rates[0].write > 1e6
    assert rates[1].read is not None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["weights"]
    assert read_rate(tmp_path / "none", 0.05).note == os.strerror(errno.ENOENT)
    assert write_rate(file / "below", 0.05).note == f"{file} is a file"


def test_a_folder_that_is_not_there_is_judged_by_the_one_above(tmp_path: Path) -> None:
    found = read_folder(tmp_path / "a" / "b")
    assert (found.nearest, found.refused) == (tmp_path, "")
    assert found.free == pytest.approx(
        os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize, rel=0.05
    )


def _tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_control_groups_of_both_versions(tmp_path: Path) -> None:
    two = _tree(
        tmp_path / "two",
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/memory.max": f"{8 * GIB}\n",
            "sys/fs/cgroup/a/memory.current": f"{3 * GIB}\n",
            "sys/fs/cgroup/a/memory.stat": f"anon 5\ninactive_file {GIB}\n",
            "sys/fs/cgroup/a/b/memory.max": "max\n",
            "sys/fs/cgroup/a/b/pids.max": "100\n",
            "sys/fs/cgroup/a/b/pids.current": "7\n",
            "sys/fs/cgroup/a/b/cpu.max": "150000 100000\n",
        },
    )
    assert (groups.memory(two), groups.threads(two), groups.cpu_quota(two)) == (
        (8 * GIB, 2 * GIB),
        (100, 7),
        1.5,
    )
    one = _tree(
        tmp_path / "one",
        {
            # The path is the host's; a container sees its own group at the top.
            "proc/self/cgroup": "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n3:pids:/docker/x\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{4 * GIB}\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}\n",
            "sys/fs/cgroup/pids/pids.max": "max\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    )
    assert (groups.memory(one), groups.threads(one), groups.cpu_quota(one)) == (
        (4 * GIB, GIB),
        (None, 0),
        None,
    )


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (None, ["GPU-aa", "GPU-bb"]),
        ("", []),
        ("1,0", ["GPU-bb", "GPU-aa"]),
        ("GPU-b", ["GPU-bb"]),
        ("0,7,1", ["GPU-aa"]),
        ("-1", []),
    ],
)
def test_visible_gpus_are_those_of_cuda(names: str | None, expected: list[str]) -> None:
    assert visible(["GPU-aa", "GPU-bb"], names) == expected


def test_the_numa_node_of_a_gpu_is_that_of_its_pci_device(tmp_path: Path) -> None:
    devices = "sys/bus/pci/devices"
    root = _tree(
        tmp_path, {f"{devices}/0000:c1:00.0/numa_node": "1\n", f"{devices}/0000:06:00.0/numa_node": "-1\n"}
    )
    found = [numa_node(root, bus) for bus in ("00000000:C1:00.0", "00000000:06:00.0", "00000000:07:00.0")]
    assert found == [1, None, None]


def test_processor_lists_of_the_kernel() -> None:
    assert list(cpu_list("0-2,8,10-11\n")) == [0, 1, 2, 8, 10, 11]
    assert list(cpu_list("")) == []


def test_case_ms_06_coverage_of_host_kv_by_states() -> None:
    found = [coverage(states, 4096, 1_000_000) for states in (100, 245, 300)]
    assert [round(share, 2) for share in found] == [0.41, 1.0, 1.23]
    assert [share < 1 for share in found] == [True, False, False]


def test_gates_of_the_27b_are_those_of_its_settings() -> None:
    gates = gates_of(m.Ground(m.facts(m.pro_6000()), "qwen38-27b").case())
    assert {(gate.operation, gate.value) for gate in gates} >= {
        ("attention, prefill", "flashinfer"),
        ("attention, decode", "trtllm_mha"),
        ("linear attention, decode", "triton"),
        ("FP8 matrix products", "cutlass"),
        ("KV cache", "fp8_e4m3"),
    }
    # XQA decodes on 10.x and on exactly 12.0: not on a GB10 (12.1), not on an H200 (9.0).
    decode = next(g for g in gates if (g.operation, g.value) == ("attention, decode", "trtllm_mha"))
    assert [decode.fits(c) for c in ((9, 0), (10, 0), (12, 0), (12, 1))] == [False, True, True, False]


def test_the_facts_of_this_machine() -> None:
    found = read_facts(os.environ)
    assert found.host.memory == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert found.host.cpus == os.sched_getaffinity(0)
    assert found.installed.python == sys.version_info[:2]
    assert ("sglang", "torch==2.14.1") in found.installed.required
    assert found.installed.shadow == ""
