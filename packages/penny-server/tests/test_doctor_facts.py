"""penny doctor names faults that this machine cannot have, and the fix that it names works.

As test_doctor_faults, but what is seeded is the fact that a probe would have read: of a GPU, a driver, a kernel.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penny_server.doctor import CHECKS
from penny_server.doctor.facts import Driver, Folder, GpuProcess, Node, Rate

_spec = importlib.util.spec_from_file_location("faults", Path(__file__).parent / "fakes" / "faults.py")
assert _spec is not None
assert _spec.loader is not None
f: Any = importlib.util.module_from_spec(_spec)
sys.modules["faults"] = f
_spec.loader.exec_module(f)
m, Fault, settings = f.m, f.Fault, f.settings
cpu, model, gpu, flash, dflash = f.cpu, f.model, f.gpu, f.flash, f.dflash
GIB = m.GIB


def store(g: Any, tmp: Path) -> None:
    g.settings["store_dir"] = "/srv/store"


def does(words: str, part: str, **values: Any) -> Callable[[Any, str, Path], Any]:
    """Does what the fix says in ``words`` to the facts: what a probe would read afterwards."""

    def fix(g: Any, text: str, tmp: Path) -> None:
        assert words in text, text
        g.change(part, **values)

    return fix


def full(path: Path) -> Folder:
    """The store's file system has room for bytes and no room for files."""
    return replace(m.roomy(path), **{"inodes": 10, "device": 1} if "store" in str(path) else {})


def two(tmp: Path) -> Any:
    return m.Ground(m.facts(m.pro_6000(), m.pro_6000()), "flash-next", {"tp_size": "2"}, m.UNBUILT)


def unset(g: Any, fix: str, tmp: Path) -> None:
    name = fix.rpartition(" ")[2]
    g.facts = replace(g.facts, environ={k: v for k, v in g.facts.environ.items() if k != name})


WRITTEN = (
    Fault("HiCache larger than the host", "MS-01", dflash, f.has("host", memory=64 * GIB, available=60 * GIB),
          "memory.host", "89.4 GiB for HiCache"),
    Fault("no driver", "containers without --gpus", gpu,
          lambda g, t: setattr(g, "facts", replace(g.facts, gpus=(), driver=Driver(error="Driver Not Loaded"))),
          "gpu.present", "No NVIDIA GPU was found (Driver Not Loaded)",
          lambda g, fix, t: setattr(g, "facts", m.facts(m.pro_6000()))),
    Fault("GPUs that are hidden", "CUDA_VISIBLE_DEVICES of another job", gpu,
          lambda g, t: (setattr(g, "facts", replace(g.facts, gpus=())), g.change("driver", error=""),
                        g.environ(CUDA_VISIBLE_DEVICES="")),
          "gpu.present", "visible with CUDA_VISIBLE_DEVICES=''",
          lambda g, fix, t: setattr(g, "facts", m.facts(m.pro_6000()))),
    Fault("two GPUs asked for, one there", "issue 4, bad input", flash, settings(tp_size="2"), "gpu.present",
          "tp_size is 2, and this machine has 1 GPU"),
    Fault("a driver older than torch", "CUDA 12 drivers", gpu, f.has("driver", cuda=(12, 8)), "gpu.driver",
          "torch is built for CUDA 13.0", does("Install a driver for CUDA 13", "driver", cuda=(13, 3))),
    Fault("torch without CUDA", "the index's CPU build", gpu, f.has("installed", torch_cuda=""), "gpu.driver",
          "built without CUDA", does("Install the CUDA build", "installed", torch_cuda="13.0")),
    Fault("an update of the driver without a restart", "NVML", gpu,
          f.has("driver", error="Driver/library version mismatch"), "gpu.driver", "kernel module differ",
          does("Restart", "driver", error="")),
    Fault("a kernel for another GPU", "sglang #36531", cpu,
          lambda g, t: (setattr(g, "facts", m.facts(m.pro_6000(capability="12.1"))),
                        g.settings.update(attention_backend="fa3")),
          "gpu.gates", "fa3 runs on 8.x and 9.0",
          lambda g, fix, t: g.settings.update(attention_backend="triton")),
    Fault("a GPU of another kind", "pennyroyal 2.x on other cards", flash, f.has("gpus", capability="10.0"),
          "gpu.capability", "made for 12.0", does("Use a GPU of that kind", "gpus", capability="12.0")),
    Fault("a GPU split by MIG", "shared machines", gpu, f.has("gpus", mig=True), "gpu.mode", "split by MIG",
          does("-mig 0", "gpus", mig=False)),
    Fault("a prohibited GPU", "shared machines", gpu, f.has("gpus", compute_mode="prohibited"), "gpu.mode",
          "is prohibited", does("-c 0", "gpus", compute_mode="default")),
    Fault("a GPU that is full", "kazimirek: image preprocessing without memory", flash,
          lambda g, t: (g.settings.update(max_total_tokens="131072"),
                        g.change("gpus", free=75 * GIB, processes=(GpuProcess(77, "python", 20 * GIB),))),
          "gpu.others", "python (77, 20.0 GiB)", does("End those", "gpus", free=97_887 << 20, processes=())),
    Fault("a GPU too small", "a 48 GB card", flash, f.has("gpus", total=94 * GIB - 1, free=94 * GIB - 1), "gpu.memory",
          "needs 94 GiB", does("larger GPU", "gpus", total=97_887 << 20, free=97_887 << 20)),
    Fault("four lanes of sixteen", "hpiguyTR, OCuLink", gpu, f.has("gpus", link_width=4), "gpu.link", "PCIe 5 x4",
          does("slot", "gpus", link_width=16), "warn"),
    Fault("a hot GPU", "throttling", gpu, f.has("gpus", slowdowns=("it is too hot",)), "gpu.power", "too hot",
          does("cooling", "gpus", slowdowns=()), "warn"),
    Fault("a memory clock that is held", "anchors 4.1", gpu, f.has("gpus", memory_clock=10_501), "gpu.clock",
          "10,501 of 14,001 MHz", does("-rmc", "gpus", memory_clock=14_001), "warn"),
    Fault("FlashInfer missing", "syv-ai #35", gpu, f.has("installed", versions={"sglang": "0.5.23"}),
          "build.flashinfer", "fall back to slower kernels",
          does("pip install", "installed", versions={"flashinfer-python": "0.7.2"})),
    Fault("nvcc without SM120", "CUDA 12.4 images", gpu, f.has("tools", nvcc_version=(12, 4)), "build.nvcc",
          "needs 12.8 or newer", does("newer CUDA toolkit", "tools", nvcc_version=(13, 3))),
    Fault("no nvcc", "images without a toolkit", gpu, f.has("tools", nvcc="", nvcc_version=(0, 0)), "build.nvcc",
          "FlashInfer and SGLang build kernels", does("CUDA toolkit 12.8", "tools", nvcc="/n", nvcc_version=(13, 0))),
    Fault("no Python.h", "Triton on slim images", gpu, f.has("tools", headers=False), "build.headers",
          "Python.h of Python 3.12 is missing", does("python3.12-dev", "tools", headers=True)),
    Fault("another torch", "pip install of something else", cpu,
          f.has("installed", required=(("sglang", "torch==2.14.1"),), versions={"torch": "2.13.0"}),
          "install.packages", "sglang needs torch==2.14.1, and 2.13.0",
          does("pip install 'torch==2.14.1'", "installed", versions={"torch": "2.14.1"})),
    Fault("a container of 48 GiB", "PLE tables killed by the kernel", flash,
          f.has("host", group_limit=48 * GIB, group_used=GIB), "memory.container", "may use 48.0 GiB",
          does("Raise the limit by 46", "host", group_limit=96 * GIB)),
    Fault("few threads", "docker --pids-limit", cpu, f.has("host", threads_limit=512, threads=40), "limits.threads",
          "472 more threads", does("--pids-limit -1", "host", threads_limit=None)),
    Fault("the other socket", "two NUMA nodes", gpu,
          f.has("host", nodes={0: Node(frozenset({20, 21}), GIB), 1: Node(frozenset(range(16)), GIB)}), "limits.numa",
          "hangs on NUMA node 0", does("--cpunodebind=0", "host", cpus=frozenset({20, 21, 22, 23})), "warn"),
    Fault("little memory that may be locked", "reference compose: memlock unlimited", flash,
          f.has("host", memlock=8 << 20), "limits.memlock", "8 MiB of memory may be locked",
          does("memlock=-1", "host", memlock=None), "warn"),
    Fault("a machine that pages", "swap in use", gpu, f.has("host", swap=32 * GIB, swap_used=20 * GIB), "memory.swap",
          "20.0 GiB of 32.0 GiB swap", does("swapoff", "host", swap_used=0), "warn"),
    Fault("huge pages that stall", "reference: NUMPY_MADVISE_HUGEPAGE=0", cpu,
          f.has("host", huge_pages="always", huge_pages_defrag="always"), "kernel.huge_pages", "compacted",
          does("echo madvise", "host", huge_pages_defrag="madvise"), "warn"),
    Fault("a clock of 1970", "boards without a battery", cpu, f.has("host", now=1000.0), "kernel.clock",
          "1970-01-01", does("set-ntp", "host", now=1.8e9), "warn"),
    Fault("a slow store", "hard drives", lambda t: m.Ground(m.facts(m.pro_6000()), "qwen38-27b"),
          lambda g, t: (store(g, t), setattr(g, "facts", replace(g.facts, write_rate=lambda p: Rate(2e8, 1.5e8)))),
          "disk.rate", "0.20 GB/s read and 0.15 GB/s written",
          lambda g, fix, t: setattr(g, "facts", m.facts(m.pro_6000())), "warn"),
    Fault("a store on NFS", "shared homes", cpu,
          lambda g, t: (store(g, t), setattr(g, "facts", replace(
              g.facts, folder=lambda p: Folder(p, p, free=9**15, kind="nfs4" if "store" in str(p) else "ext4")))),
          "folders.kind", "is on nfs4", lambda g, fix, t: setattr(g, "facts", m.facts(host=m.host(16))), "warn"),
    Fault("no files left", "sglang #28653", cpu,
          lambda g, t: (store(g, t), setattr(g, "facts", replace(g.facts, folder=full))),
          "folders.space", "room for 10 more files",
          lambda g, fix, t: setattr(g, "facts", m.facts(host=m.host(16))), "warn"),
    Fault("io_uring forbidden, and a store wants it", "NIXL in Docker's seccomp", cpu,
          lambda g, t: (store(g, t), g.change("host", io_uring="EPERM")), "kernel.io_uring", "seccomp",
          does("seccomp=unconfined", "host", io_uring="")),
    Fault("a Python that came later", "new images", cpu, f.has("installed", python=(3, 14)), "install.python",
          "Python 3.14 is not among", does("Make an environment", "installed", python=(3, 13))),
    Fault("a plugin of somebody else", "anchors 1.4", cpu, f.has("installed", plugins=("rdna3 of sglang-rdna3",)),
          "install.plugins", "rdna3 of sglang-rdna3", does("SGLANG_PLUGINS", "installed", plugins=()), "warn"),
    Fault("byte code that is kept nowhere", "read-only images", cpu,
          f.has("installed", bytecode=False, bytecode_folder=""), "install.bytecode", "every start compiles",
          does("PYTHONPYCACHEPREFIX", "installed", bytecode_folder="/var/cache/python"), "warn"),
    Fault("one processor", "docker --cpus 1", gpu, f.has("host", cpu_quota=1.0), "limits.cpus", "1 processor may",
          does("--cpus", "host", cpu_quota=None), "warn"),
    Fault("a checkpoint on a slow drive", "loading for minutes", model,
          lambda g, t: setattr(g, "facts", replace(g.facts, read_rate=lambda p: Rate(read=1e4))), "disk.checkpoint",
          "minutes", lambda g, fix, t: setattr(g, "facts", replace(g.facts, read_rate=lambda p: Rate(read=6e9))),
          "warn"),
    Fault("Docker's /dev/shm with two GPUs", "reference compose: shm 16gb", two,
          f.has("host", shm=64 << 20), "memory.shared", "NCCL between 2 GPUs",
          does("--shm-size 16g", "host", shm=16 * GIB)),
    Fault("segments that grow, with two GPUs", "H3PO, reference TP2", two,
          lambda g, t: g.environ(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"), "environment.variables",
          "cannot be shared between the processes", unset),
    Fault("a plan stream with two GPUs", "H3PO, reference TP2", two,
          lambda g, t: g.environ(SGLANG_ENABLE_OVERLAP_PLAN_STREAM="1"), "environment.variables", "had to take it away",
          unset),
    Fault("more requests than states", "vLLM recipes #831: 1,024 asked, 939 states", gpu,
          settings(max_running_requests="1024", max_mamba_cache_size=""), "plan.requests",
          "max_running_requests is 1024, and the pools serve"),
    Fault("small packages of other versions", "pip install of something else", cpu,
          f.has("installed", required=(("sglang", "numba==0.65.1"), ("sglang", "einops")), versions={"numba": "0.60"}),
          "install.packages", "numba==0.65.1 (found 0.60), einops (found none)",
          does("pip install penny-server", "installed", versions={"numba": "0.65.1", "einops": "0.8"}), "warn"),
)  # fmt: skip


@pytest.mark.parametrize("fault", WRITTEN, ids=lambda fault: fault.name)
def test_a_fault_is_named_and_its_fix_works(fault: Any, tmp_path: Path) -> None:
    f.prove(fault, tmp_path)


def test_hicache_is_counted_as_a_total(tmp_path: Path) -> None:
    """MS-01: 96 GB in all (89.4 GiB), not 96 for each pool, so a host of 128 GiB holds it."""
    ground = m.Ground(m.facts(m.pro_6000(), host=m.host(128)), "qwen38-27b-dflash2", without=m.UNBUILT)
    assert "memory.host" not in {x.check for x in ground.look(f.LIGHT) if x.state != "ok"}
    assert ground.case().plan.host.tier == 96 * 10**9


def test_a_seam_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """SGLang with other source: seeded on our side, by a digest that the installed source does not have."""
    from penny_server.sglang import registry

    seams = registry.all_seams()
    changed = next(seam for seam in seams if seam.feature == "pools")
    check = [check for check in CHECKS if check.name == "install.seams"]
    assert [x.state for x in gpu(Path()).look(check)] == ["ok"]
    with monkeypatch.context() as patch:
        others = tuple(replace(s, digest="0" * 16) if s is changed else s for s in seams)
        patch.setattr(registry, "all_seams", lambda: others)
        (finding,) = gpu(Path()).look(check)
    assert finding.state == "fail"
    assert f"Seam {changed.name} does not fit" in finding.found
    assert finding.fix == "Reinstall it: pip install --force-reinstall sglang==0.5.23"
