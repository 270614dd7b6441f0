"""Every number of the planner that is not arithmetic on ``config.json`` or a formula of SGLang, with its source."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True)
class Constant:
    """A measured or fitted number. ``kind`` is ``published``, ``measured``, ``fitted`` or ``assumed``."""

    name: str
    bytes: int
    kind: str
    source: str


CONTEXT = Constant(
    "CUDA context",
    int(0.6 * GIB),
    "assumed",
    "what a process holds before it loads weights; the published step from 745,600 to 824,384 tokens for 0.011 of "
    "memory_fraction implies 0.63 GiB on the reference's card",
)

UNEXPLAINED: dict[tuple[str, str], Constant] = {
    ("12.0", "qwen4_exp"): Constant(
        "held beside the weights",
        int(1.9643 * GIB),
        "fitted",
        "the published pool of 824,384 tokens (Flash-Next, 24 slots, 4 requests, memory fraction 0.981) less the "
        "weights by their shapes",
    ),
    ("12.0", "qwen3_5"): Constant(
        "held beside the weights",
        int(0.7 * GIB),
        "fitted",
        "the published pool of 1,118,784 tokens (27B FP8 with DFlash2, 24 slots, 4 requests, memory fraction 0.92) "
        "less the weights by their shapes",
    ),
}
"""Memory in use when the pool is sized that no weight explains, by compute capability and family."""

UNEXPLAINED_ELSEWHERE = Constant(
    "held beside the weights",
    int(0.3 * GIB),
    "assumed",
    "no start on this kind of GPU has been measured",
)

VISION_CACHE_MIB = 100
"""``SGLANG_VLM_CACHE_SIZE_MB``: kept back for images (SGLang ``environ.py``, ``mm_runtime_reservation_gb``)."""
VISION_TRANSPORT_MIB = 1024
"""``SGLANG_MM_FEATURE_CACHE_MB``: kept back when features travel as CUDA handles (same place)."""

GRAPH_DECODE_MIB = 2
GRAPH_PREFILL_MIB = 8
ACTIVATION_MIB = 1.5
METADATA_MIB = 512
PARALLEL_MIB = 128
LARGE_GPU_MIB = 60 * 1024
LARGE_GPU_FLOOR_MIB = 10 * 1024
"""SGLang's own rules of thumb (``arg_groups/memory_hook.py``): for each decode batch size and each prefill graph, for
each token of a prefill chunk, for metadata, for each GPU, and the least that it keeps free on a large GPU."""

FLASHINFER_WORKSPACE = 384 * MIB
TRTLLM_WORKSPACE = 512 * MIB
"""SGLang ``environ.py`` (``SGLANG_FLASHINFER_WORKSPACE_SIZE``) and ``layers/attention/trtllm_mha_backend.py``."""

HICACHE_UNIT = 10**9
"""``--hicache-size`` counts decimal gigabytes (``mem_cache/pool_host/base.py``)."""
HICACHE_RATIO = 2.0
"""Host tokens for each device token when neither size nor ratio is given (``mem_cache/kv_cache_builder.py``)."""
HICACHE_RESERVE = 10 * GIB
"""Host memory that SGLang leaves to the rest (``mem_cache/pool_host/base.py``)."""

COMFORTABLE_SLOTS = 6
"""Recurrent slots per request that the reference keeps; fewer serve, but cache fewer prefixes."""
