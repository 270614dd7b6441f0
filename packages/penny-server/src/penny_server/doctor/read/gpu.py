"""The GPUs and their driver, through NVML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

from penny_server.doctor.facts import Driver, GpuFacts, GpuProcess
from penny_server.doctor.read.kernel import text

MODES = {0: "default", 1: "exclusive", 2: "prohibited", 3: "exclusive"}
SLOWDOWNS = {
    "nvmlClocksThrottleReasonHwThermalSlowdown": "it is too hot",
    "nvmlClocksThrottleReasonSwThermalSlowdown": "it is too hot",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "the power supply asks for less",
}


def read_gpus(environ: Mapping[str, str], root: Path = Path("/")) -> tuple[Driver, tuple[GpuFacts, ...]]:
    """The driver, and the GPUs that CUDA would see in ``environ``, in its order; ``root`` is where /sys is."""
    import pynvml  # type: ignore[import-untyped]

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Driver(error=str(error)), ()
    try:
        cuda = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
        driver = Driver(_text(pynvml.nvmlSystemGetDriverVersion()), (cuda // 1000, cuda % 1000 // 10))
        found = {}
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            found[_text(pynvml.nvmlDeviceGetUUID(handle))] = _gpu(pynvml, handle, root)
    except pynvml.NVMLError as error:
        return Driver(error=str(error)), ()
    finally:
        pynvml.nvmlShutdown()
    return driver, tuple(found[uuid] for uuid in visible(list(found), environ.get("CUDA_VISIBLE_DEVICES")))


def visible(uuids: list[str], names: str | None) -> list[str]:
    """Those of ``uuids`` that CUDA_VISIBLE_DEVICES lets through; it ignores all after the first unknown name."""
    if names is None:
        return uuids
    chosen: list[str] = []
    for name in (part.strip() for part in names.split(",")):
        by_index = [uuids[int(name)]] if name.isdigit() and int(name) < len(uuids) else []
        match = by_index or [uuid for uuid in uuids if name.startswith("GPU-") and uuid.startswith(name)]
        if not match:
            break
        chosen += match
    return chosen


def _gpu(nvml: Any, handle: Any, root: Path) -> GpuFacts:
    def ask(function: str, *more: Any) -> Any:
        """What an NVML function says, None where this GPU or driver does not know."""
        try:
            return getattr(nvml, function)(handle, *more)
        except (nvml.NVMLError, AttributeError):
            return None

    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    # The first version of this call counts the driver's own reserve as used.
    memory = ask("nvmlDeviceGetMemoryInfo", nvml.nvmlMemory_v2) or ask("nvmlDeviceGetMemoryInfo")
    limit, default = ask("nvmlDeviceGetPowerManagementLimit"), ask("nvmlDeviceGetPowerManagementDefaultLimit")
    mig = ask("nvmlDeviceGetMigMode")
    clock = nvml.NVML_CLOCK_MEM
    return GpuFacts(
        name=_text(nvml.nvmlDeviceGetName(handle)),
        capability=f"{major}.{minor}",
        total=int(memory.total) if memory else 0,
        free=int(memory.total - memory.used) if memory else 0,
        link_width=ask("nvmlDeviceGetCurrPcieLinkWidth"),
        link_width_most=ask("nvmlDeviceGetMaxPcieLinkWidth"),
        link_generation=ask("nvmlDeviceGetMaxPcieLinkGeneration"),
        link_generation_most=ask("nvmlDeviceGetGpuMaxPcieLinkGeneration"),
        power_limit=None if limit is None else limit / 1000,
        power_default=None if default is None else default / 1000,
        memory_clock=ask("nvmlDeviceGetApplicationsClock", clock),
        memory_clock_most=ask("nvmlDeviceGetMaxClockInfo", clock),
        slowdowns=_slowdowns(nvml, ask("nvmlDeviceGetCurrentClocksThrottleReasons")),
        compute_mode=MODES.get(ask("nvmlDeviceGetComputeMode") or 0, "default"),
        mig=bool(mig and mig[0]),
        node=numa_node(root, _text(pci.busId)) if (pci := ask("nvmlDeviceGetPciInfo")) else None,
        processes=tuple(_processes(ask)),
    )


def numa_node(root: Path, bus: str) -> int | None:
    """The NUMA node of a PCI device, which NVML names with eight digits of its domain and the kernel with four."""
    domain, _, rest = bus.lower().partition(":")
    node = text(root / "sys/bus/pci/devices" / f"{domain[-4:]}:{rest}" / "numa_node")
    return int(node) if node.isdigit() else None


def _slowdowns(nvml: Any, reasons: int | None) -> tuple[str, ...]:
    found = [why for name, why in SLOWDOWNS.items() if (reasons or 0) & getattr(nvml, name, 0)]
    return tuple(dict.fromkeys(found))


def _processes(ask: Callable[[str], Any]) -> Iterable[GpuProcess]:
    seen = set()
    for function in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
        for process in ask(function) or ():
            if process.pid in seen:
                continue
            seen.add(process.pid)
            used = process.usedGpuMemory
            yield GpuProcess(int(process.pid), _name(process.pid), None if used is None else int(used))


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "a process of another user or container"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
