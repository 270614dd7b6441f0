"""Whether the GPUs of this machine are those that the profile was made for."""

from __future__ import annotations

from collections.abc import Sequence

from penny_server.errors import ExitCode
from penny_server.profiles.rules.base import refuse
from penny_server.profiles.schema import DeviceSection
from penny_server.serving.gpu import Gpu

GIB = 2**30


def check_gpus(profile: str, section: DeviceSection, gpus: Sequence[Gpu], tp_size: int) -> None:
    """Raises PennyError (environment) unless the first ``tp_size`` of ``gpus`` fit ``section``.

    A GPU whose memory could not be read (0 bytes) is let pass: the start will tell.
    """
    if len(gpus) < tp_size:
        refuse(
            f"tp_size is {tp_size}, and this machine has {len(gpus)} GPU{'s' * (len(gpus) != 1)} that it may use.",
            f"Set tp_size to {max(1, len(gpus))}, or make more GPUs visible with CUDA_VISIBLE_DEVICES.",
            ExitCode.ENVIRONMENT,
        )
    wanted = section.compute_capability
    for gpu in gpus[:tp_size]:
        if wanted and gpu.compute_capability not in wanted:
            refuse(
                f"The profile {profile} needs an NVIDIA GPU with compute capability {' or '.join(wanted)}, and "
                f"{gpu.name} has {gpu.compute_capability}.",
                exit_code=ExitCode.ENVIRONMENT,
            )
        if gpu.memory_bytes and gpu.memory_bytes < section.vram_gib * GIB:
            refuse(
                f"The profile {profile} needs {section.vram_gib:g} GiB of GPU memory, and {gpu.name} has "
                f"{gpu.memory_bytes / GIB:.1f} GiB.",
                exit_code=ExitCode.ENVIRONMENT,
            )


def static_room(gpu_bytes: float, used_bytes: float, fraction: float) -> float:
    """Bytes that SGLang's static fraction leaves for pools beside ``used_bytes`` of weights; below zero for none.

    The fraction is of the whole memory, not of what is free.
    """
    return gpu_bytes * fraction - used_bytes


def check_fraction(fraction: float | None, weight_bytes: float, gpu: Gpu) -> None:
    """Raises PennyError (usage) when ``mem_fraction_static`` is too small for the weights on one GPU."""
    if fraction is None or not gpu.memory_bytes or static_room(gpu.memory_bytes, weight_bytes, fraction) > 0:
        return
    refuse(
        f"mem_fraction_static is {fraction:g}, which is {fraction * gpu.memory_bytes / GIB:.1f} GiB of {gpu.name}; the "
        f"weights alone are {weight_bytes / GIB:.1f} GiB, which leaves no room for a KV pool.",
        f"Raise mem_fraction_static above {weight_bytes / gpu.memory_bytes:.2f}.",
    )
