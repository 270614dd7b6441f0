"""The memory fraction that SGLang takes when none is given (``arg_groups/memory_hook.py``)."""

from __future__ import annotations

from penny_server.plan.constants import (
    ACTIVATION_MIB,
    GRAPH_DECODE_MIB,
    GRAPH_PREFILL_MIB,
    LARGE_GPU_FLOOR_MIB,
    LARGE_GPU_MIB,
    METADATA_MIB,
    MIB,
    PARALLEL_MIB,
)
from penny_server.plan.machines import Machine
from penny_server.plan.settings import PlanSettings

_STEPS = ((20, 2048, 8), (35, 4096, 48), (60, 4096, 32), (90, 8192, 256), (160, 8192, 256))
_LARGEST = (16384, 512)
LEAST_CHUNK = 2048
VIT_WIDTH, VIT_LAYERS = 1024, 24


def defaults(machine: Machine) -> tuple[int, int]:
    """The prefill chunk and the largest decode batch that SGLang takes for this much memory."""
    gib = machine.listed / MIB / 1024
    return next(((chunk, batch) for limit, chunk, batch in _STEPS if gib < limit), _LARGEST)


def decode_batch(machine: Machine, settings: PlanSettings) -> int:
    """The largest decode batch that gets a CUDA graph."""
    batch = defaults(machine)[1]
    if settings.decode_batch is not None:
        return settings.decode_batch
    return min(batch, settings.requests) if settings.requests else batch


def prefill_graphs(machine: Machine, settings: PlanSettings) -> int:
    """How many prefill sizes get a CUDA graph (``cuda_graph_hook.py``)."""
    largest = min(settings.chunk or defaults(machine)[0], settings.max_tokens or 1 << 62)
    sizes = [*range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32), *range(576, 1025, 64)]
    sizes += [*range(1280, 4097, 256), *range(4608, largest + 1, 512)]
    return sum(size <= largest for size in sizes)


def graphs_mib(machine: Machine, settings: PlanSettings) -> float:
    """SGLang's estimate of what CUDA graphs take, in MiB."""
    decode = GRAPH_DECODE_MIB * decode_batch(machine, settings) if settings.graphs else 0
    prefill = GRAPH_PREFILL_MIB * prefill_graphs(machine, settings) if settings.prefill_graphs else 0
    return decode + prefill


def activations_mib(machine: Machine, settings: PlanSettings) -> float:
    """SGLang's estimate of activations and metadata, in MiB."""
    return METADATA_MIB + ACTIVATION_MIB * max(settings.chunk or defaults(machine)[0], LEAST_CHUNK)


def memory_fraction(machine: Machine, settings: PlanSettings, vision_width: int | None) -> float:
    """``mem_fraction_static`` as given, else SGLang's own; ``vision_width`` is that of a vision tower in use."""
    if settings.fraction is not None:
        return settings.fraction
    total = machine.listed / MIB
    kept = activations_mib(machine, settings) + PARALLEL_MIB * settings.tp + graphs_mib(machine, settings)
    if total > LARGE_GPU_MIB:
        kept = max(kept, LARGE_GPU_FLOOR_MIB)
    fraction = round((total - kept) / total, 3)
    if vision_width is None:
        return fraction
    weight = (vision_width / VIT_WIDTH) ** 2
    return fraction * 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (weight - 1.0)))
