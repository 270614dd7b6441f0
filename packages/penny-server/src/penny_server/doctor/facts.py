"""The facts about a machine that checks judge. Reading them is in `read`; tests write them down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class GpuProcess:
    """A process with memory on a GPU; ``bytes`` is None where the driver does not say."""

    pid: int
    name: str
    bytes: int | None


@dataclass(frozen=True)
class GpuFacts:
    """One GPU that CUDA would see. Memory in bytes, power in watts, clocks in MHz; None is not known.

    Attributes:
        free: memory that no process holds; the driver's own reserve counts as free, as in the planner's sizes.
        link_width, link_generation: PCIe lanes in use, and the generation that GPU and board can do together;
            ``_most`` is what the GPU itself can do.
        node: NUMA node that the GPU hangs on.
        slowdowns: why the driver holds clocks down now, where it is a fault (heat, power brake).
        compute_mode: ``default``, ``exclusive`` or ``prohibited``.
        memory_clock: highest memory clock that is allowed now; ``memory_clock_most`` that the card can do.
    """

    name: str
    capability: str
    total: int
    free: int
    link_width: int | None = None
    link_width_most: int | None = None
    link_generation: int | None = None
    link_generation_most: int | None = None
    power_limit: float | None = None
    power_default: float | None = None
    memory_clock: int | None = None
    memory_clock_most: int | None = None
    slowdowns: tuple[str, ...] = ()
    compute_mode: str = "default"
    mig: bool = False
    node: int | None = None
    processes: tuple[GpuProcess, ...] = ()


@dataclass(frozen=True)
class Driver:
    """NVIDIA's driver and the newest CUDA that it runs, or why it does not answer."""

    version: str = ""
    cuda: tuple[int, int] = (0, 0)
    error: str = ""


@dataclass(frozen=True)
class Node:
    """A NUMA node: its processors and memory in bytes."""

    cpus: frozenset[int]
    memory: int


@dataclass(frozen=True)
class Host:
    """Host memory, limits and kernel. Sizes in bytes; a limit that is None is no limit.

    Attributes:
        group_limit, group_used: memory of the control group (container) that this process is in.
        cpu_quota: processors that the control group may use at once.
        threads_limit: processes and threads that may be started; ``threads`` those that there are.
        shm: free bytes in /dev/shm, None if it cannot be written.
        huge_pages, huge_pages_defrag: policy for transparent huge pages.
        io_uring: empty if a ring could be made, else the name of the error.
        clock_source: the kernel's clock; ``now`` is seconds since 1970; ``newest`` when our latest file was written.
        balancing: whether the kernel moves pages between NUMA nodes by itself.
    """

    memory: int
    available: int
    swap: int = 0
    swap_used: int = 0
    group_limit: int | None = None
    group_used: int = 0
    cpus: frozenset[int] = frozenset({0})
    cpu_quota: float | None = None
    cpu_flags: frozenset[str] = frozenset()
    memlock: int | None = None
    files: int | None = None
    threads_limit: int | None = None
    threads: int = 0
    shm: int | None = None
    huge_pages: str = ""
    huge_pages_defrag: str = ""
    nodes: Mapping[int, Node] | None = None
    balancing: bool = False
    io_uring: str = ""
    clock_source: str = ""
    now: float = 0.0
    newest: float = 0.0


@dataclass(frozen=True)
class Tools:
    """What builds kernels: paths (empty if missing) and the version of nvcc.

    Attributes:
        headers: whether Python's C headers are there; Triton compiles against them.
        prebuilt: whether FlashInfer's kernels are installed ready-made.
    """

    nvcc: str = ""
    nvcc_version: tuple[int, int] = (0, 0)
    c: str = ""
    cxx: str = ""
    ninja: str = ""
    headers: bool = True
    prebuilt: bool = False


@dataclass(frozen=True)
class Installed:
    """Python and packages.

    Attributes:
        versions: installed packages by normalised name.
        required: who requires what: pairs of a package and a requirement such as ``torch==2.14.1``.
        torch_cuda: the CUDA that torch is built for; empty for a build without.
        bytecode: whether SGLang's byte code is there; ``bytecode_folder`` is where new byte code goes, empty if it
            cannot be written.
        plugins: entry points for SGLang of other packages than ours.
        shadow: a file or folder that hides SGLang, empty if none.
    """

    python: tuple[int, int] = (3, 11)
    versions: Mapping[str, str] | None = None
    required: tuple[tuple[str, str], ...] = ()
    torch_cuda: str = ""
    bytecode: bool = True
    bytecode_folder: str = ""
    plugins: tuple[str, ...] = ()
    shadow: str = ""


@dataclass(frozen=True)
class Folder:
    """A folder that a server would use. It may not exist yet: then ``nearest`` is the one it would be made in.

    Attributes:
        refused: why it could not be written, empty if it can.
        free, inodes: bytes and files that still fit; inodes is None where the file system does not count them.
        device: number of the file system; folders with one number share its space.
        kind: the file system; ``noexec`` means that libraries in it cannot be loaded.
    """

    path: Path
    nearest: Path
    refused: str = ""
    free: int = 0
    inodes: int | None = None
    kind: str = ""
    noexec: bool = False
    device: int = 0


@dataclass(frozen=True)
class Rate:
    """Measured bytes a second past the page cache; None was not measured, and ``note`` says why."""

    read: float | None = None
    write: float | None = None
    direct: bool = True
    note: str = ""


@dataclass(frozen=True)
class Facts:
    """All facts. The three callables look at the place that they are given.

    Attributes:
        folder: the state of a folder.
        write_rate: measures a temporary file in a folder; ``read_rate`` measures reading of an existing file.
    """

    driver: Driver
    gpus: tuple[GpuFacts, ...]
    host: Host
    tools: Tools
    installed: Installed
    environ: Mapping[str, str]
    folder: Callable[[Path], Folder]
    write_rate: Callable[[Path], Rate]
    read_rate: Callable[[Path], Rate]
