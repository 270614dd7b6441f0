"""The memory that a server would find: a GPU by name, or a size."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from penny_server.errors import ExitCode, PennyError
from penny_server.nearest import did_you_mean
from penny_server.plan.constants import CONTEXT, GIB, MIB

_UNITS = {"gib": GIB, "g": GIB, "gb": 10**9, "mib": MIB, "m": MIB, "mb": 10**6}


@dataclass(frozen=True)
class Machine:
    """Memory for one server.

    Attributes:
        usable: bytes that CUDA reports as the card's capacity (``torch.cuda.mem_get_info``), or host memory.
        listed: bytes that nvidia-smi lists, from which SGLang derives its default memory fraction.
        capability: compute capability, None where it is not known.
        context: bytes taken before weights are loaded.
        source: where the sizes come from.
    """

    name: str
    usable: int
    listed: int
    capability: str | None
    context: int
    source: str


GPUS = {
    "rtx-pro-6000": Machine(
        "RTX PRO 6000 Blackwell",
        int(94.97 * GIB),
        97_887 * MIB,
        "12.0",
        CONTEXT.bytes,
        "97,887 MiB by nvidia-smi (the reference's memory page), 94.97 GiB as CUDA capacity (antirez/ds4 issue 431)",
    ),
    "h200": Machine(
        "H200",
        int(139.8 * GIB),
        143_771 * MIB,
        "9.0",
        CONTEXT.bytes,
        "143,771 MiB by nvidia-smi, about 139.8 GiB as CUDA capacity",
    ),
}
DEFAULT_GPU = "rtx-pro-6000"
USABLE = 0.993
"""Of the memory that the driver lists, CUDA gives about this much (94.97 of 95.59 GiB on an RTX PRO 6000)."""
SAME_SIZE = 0.02
"""Relative difference up to which a card of a known name is taken for the known one."""


def gpu(name: str) -> Machine:
    """The GPU called ``name``. Raises PennyError (usage) that names the nearest one."""
    found = GPUS.get(name.lower())
    if found is None:
        raise PennyError(
            f"--gpu {name}: this GPU is not known. {did_you_mean(name, GPUS)}".strip(),
            ExitCode.USAGE,
            "Give its memory instead, as CUDA reports it: --vram 94.97GiB",
        )
    return found


def memory(text: str) -> int:
    """Bytes that a size such as ``96GiB``, ``80 GB`` or ``94.97`` (GiB) means. Raises PennyError (usage)."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    unit = _UNITS.get((found.group(2) or "GiB").lower()) if found else None
    if found is None or unit is None or float(found.group(1)) <= 0:
        raise PennyError(f"--vram takes a size such as 96GiB, and got {text!r}.", ExitCode.USAGE)
    return int(float(found.group(1)) * unit)


def of_size(size: int, capability: str | None) -> Machine:
    """A GPU of which only the memory is known."""
    return Machine(f"a GPU with {size / GIB:.2f} GiB", size, size, capability, CONTEXT.bytes, "--vram")


def of_driver(name: str, listed: int, capability: str | None) -> Machine:
    """A GPU as its driver describes it, ``listed`` in bytes: the known one of that name and size, else by its size."""
    for known in GPUS.values():
        if known.name in name and abs(known.listed - listed) < SAME_SIZE * known.listed:
            return known
    return replace(of_size(int(listed * USABLE), capability), name=name, listed=listed, source="the driver")


def cpu(size: int) -> Machine:
    """A machine that serves from its processor and ``size`` bytes of free memory."""
    return Machine(f"a CPU with {size / GIB:.2f} GiB free", size, size, None, 0, "free memory of the host")
