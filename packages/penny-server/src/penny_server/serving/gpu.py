"""The NVIDIA GPUs of this machine, without importing torch."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU; ``compute_capability`` is for example ``12.0``, ``memory_bytes`` is 0 when not known."""

    name: str
    compute_capability: str
    memory_bytes: int = 0


def usable_gpus() -> tuple[Gpu, ...]:
    """The GPUs that a CUDA process would see, in CUDA_VISIBLE_DEVICES order; none without a driver."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = _all_gpus()
    if visible is None:
        return tuple(gpus.values())
    chosen: list[Gpu] = []
    for name in (part.strip() for part in visible.split(",")):
        match = [gpu for uuid, gpu in gpus.items() if name.startswith("GPU-") and uuid.startswith(name)]
        if name.isdigit() and int(name) < len(gpus):
            match = [list(gpus.values())[int(name)]]
        if not match:
            break  # CUDA ignores everything after the first name it does not know
        chosen += match
    return tuple(chosen)


def _all_gpus() -> dict[str, Gpu]:
    import pynvml  # type: ignore[import-untyped]

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        found = {}
        for handle in handles:
            major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
            try:
                memory = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
            except pynvml.NVMLError:
                memory = 0  # unified-memory parts do not say
            found[_text(pynvml.nvmlDeviceGetUUID(handle))] = Gpu(
                _text(pynvml.nvmlDeviceGetName(handle)), f"{major}.{minor}", memory
            )
        return found
    finally:
        pynvml.nvmlShutdown()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
