"""Which of a profile's assertions hold for a launch: those whose settings the person left as the profile has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

POOLS = (
    "max_total_tokens",
    "mem_fraction_static",
    "max_mamba_cache_size",
    "max_running_requests",
    "mamba_full_memory_ratio",
    "kv_cache_dtype",
    "dtype",
    "mamba_ssm_dtype",
    "page_size",
    "context_length",
    "tp_size",
    "speculative_algorithm",
    "speculative_num_draft_tokens",
)
DECIDE: Mapping[str, tuple[str, ...]] = {
    "pool_tokens": POOLS,
    "requests": POOLS,
    "recurrent_slots": POOLS,
    "free_gib": (*POOLS, "chunked_prefill_size", "cuda_graph_max_bs_decode", "attention_backend"),
    "attention": ("attention_backend", "prefill_attention_backend", "decode_attention_backend"),
    "linear attention": (
        "linear_attn_backend",
        "linear_attn_decode_backend",
        "linear_attn_prefill_backend",
        "linear_attn_verify_backend",
        "mamba_ssm_dtype",
    ),
    "linear layers": ("quantization", "fp8_gemm_runner_backend", "dtype"),
    "experts": ("quantization", "moe_runner_backend", "dtype"),
    "KV cache": ("kv_cache_dtype", "dtype"),
    "recurrent state": ("mamba_ssm_dtype", "dtype"),
    "sampling": ("sampling_backend",),
    "decode graphs": (
        "disable_cuda_graph",
        "cuda_graph_backend_decode",
        "cuda_graph_max_bs_decode",
        "max_running_requests",
        "disable_decode_cuda_graph",
    ),
    "prefill graphs": ("disable_cuda_graph", "cuda_graph_backend_prefill", "disable_prefill_cuda_graph"),
}
"""The SGLang arguments that decide what an assertion is about, by its key or by the operation's first words."""

OF_PROFILE = re.compile(r"(\w+ \()?profile [^,]+(, needs [^,]+)?|derived|the profile's name")
"""Origins that are not a person's doing; what holds without a feature, or on several GPUs, is one."""


def changed(about: str, origins: Mapping[str, str]) -> str:
    """The first setting that decides ``about`` and that a person changed; empty if there is none."""
    for key in DECIDE.get(about, ()):
        origin = origins.get(f"sglang.{key}")
        if origin is not None and not OF_PROFILE.fullmatch(origin):
            return key
    return ""


def subject(operation: str) -> str:
    """What an operation, or a pattern of some, is about: its words before the first comma, without ``draft``."""
    return operation.removeprefix("draft, ").partition(",")[0].strip()


def matching(pattern: str, found: Mapping[str, str]) -> dict[str, str]:
    """The operations that a pattern names."""
    return {name: backend for name, backend in found.items() if fnmatchcase(name, pattern)}
