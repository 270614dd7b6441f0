"""Which implementation each operation really got, read from the objects of a running model, not from its settings."""

from __future__ import annotations

from collections import Counter
from typing import Any

NONE = "none"


def resolved_backends(runner: Any) -> dict[str, str]:
    """Operation -> implementation of a `ModelRunner` whose graphs are captured."""
    found: dict[str, str] = {}
    _attention(getattr(runner, "attn_backend", None), found)
    found |= _layers(runner.model)
    if sampler := getattr(runner, "sampler", None):
        found["sampling"] = type(sampler).__name__
    found["KV cache"] = str(getattr(runner, "kv_cache_dtype", NONE)).removeprefix("torch.")
    found |= _states(runner)
    found["decode graphs"] = _decode_graphs(runner)
    prefill = getattr(runner, "prefill_cuda_graph_runner", None)
    found["prefill graphs"] = type(prefill).__name__ if prefill is not None else NONE
    return found


def _attention(backend: Any, found: dict[str, str], phases: tuple[str, ...] = ("prefill", "decode")) -> None:
    """Follows SGLang's backends that only choose between others down to those that compute."""
    if backend is None:
        return
    if hasattr(backend, "full_attn_backend"):
        _attention(backend.full_attn_backend, found)
        _linear(backend.linear_attn_backend, found)
    elif hasattr(backend, "prefill_backend") and hasattr(backend, "decode_backend"):
        _attention(backend.prefill_backend, found, ("prefill",))
        _attention(backend.decode_backend, found, ("decode",))
    else:
        for phase in phases:
            found[f"attention, {phase}"] = type(backend).__name__


def _linear(backend: Any, found: dict[str, str]) -> None:
    kernels = getattr(backend, "kernel_dispatcher", None)
    for phase, name in (
        ("prefill", "extend_kernel"),
        ("decode", "decode_kernel"),
        ("verify", "verify_kernel"),
    ):
        kernel = getattr(kernels, name, None)
        if kernel is not None:
            found[f"linear attention, {phase}"] = type(kernel).__name__
    if kernels is None and backend is not None:
        found["linear attention"] = type(backend).__name__


def _layers(model: Any) -> dict[str, str]:
    """Matrix products by kind of layer: the quantisation methods that their modules hold, with how many hold each."""
    methods: dict[str, Counter[str]] = {}
    for module in model.modules():
        method = getattr(module, "quant_method", None)
        if method is not None:
            methods.setdefault(_kind(module), Counter())[type(method).__name__] += 1
    return {
        kind: ", ".join(f"{name} ({n})" for name, n in counts.most_common())
        for kind, counts in sorted(methods.items())
    }


def _kind(module: Any) -> str:
    name = type(module).__name__
    if "MoE" in name:
        return "experts"
    if "LMHead" in name:
        return "output head"
    if "Embedding" in name:
        return "embedding"
    return "linear layers"


def _states(runner: Any) -> dict[str, str]:
    pool = getattr(getattr(runner, "req_to_token_pool", None), "mamba_pool", None)
    cache = getattr(pool, "mamba_cache", None)
    if cache is None:
        return {}
    temporal = str(cache.temporal.dtype).removeprefix("torch.")
    conv = ", ".join(dict.fromkeys(str(part.dtype).removeprefix("torch.") for part in cache.conv))
    return {"recurrent state": f"{temporal}, convolution {conv}"}


def _decode_graphs(runner: Any) -> str:
    sizes = list(getattr(runner, "decode_cuda_graph_capture_bs", None) or [])
    if not sizes:
        return NONE
    graphs = type(runner.decode_cuda_graph_runner).__name__
    return f"{graphs}, batches {', '.join(map(str, sizes))}"
