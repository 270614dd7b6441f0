"""Which operations of a launch have kernels for this GPU, one line each.

The gates are those of stock SGLang 0.5.23 and FlashInfer 0.7, as its sources and the reference state them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penny_server.doctor.base import Case, Check, Finding, fail, ok

Capability = tuple[int, int]
Fits = Callable[[Capability], bool]


def _from(major: int, minor: int = 0) -> Fits:
    return lambda found: found >= (major, minor)


def _in(*majors: int) -> Fits:
    return lambda found: found[0] in majors


def _sm100_or_sm120(found: Capability) -> bool:
    return found[0] == 10 or found == (12, 0)


@dataclass(frozen=True)
class Gate:
    """One implementation of an operation: the setting and value that choose it, where it runs, what does instead."""

    operation: str
    keys: tuple[str, ...]
    value: str
    fits: Fits
    where: str
    instead: str = ""


_PREFILL = ("prefill_attention_backend", "attention_backend")
_DECODE = ("decode_attention_backend", "attention_backend")
_ATTENTION = (
    ("flashinfer", _from(7, 5), "7.5 or newer", "triton"),
    ("triton", _from(8), "8.0 or newer", ""),
    ("trtllm_mha", _sm100_or_sm120, "10.x and 12.0", "flashinfer"),
    ("fa3", _in(8, 9), "8.x and 9.0", "flashinfer"),
    ("fa4", _in(9, 10), "9.0 and 10.x", "flashinfer"),
)
_LINEAR = (
    ("triton", _from(8), "8.0 or newer", ""),
    ("flashinfer", _from(9), "9.0 or newer", "triton"),
)
_MOE = (
    ("flashinfer_cutlass", _in(9, 10, 12), "9.0, 10.x and 12.x", "auto"),
    ("flashinfer_trtllm", _in(10), "10.x", "flashinfer_cutlass"),
)

GATES: tuple[Gate, ...] = (
    *(Gate("attention, prefill", _PREFILL, *rest) for rest in _ATTENTION),
    *(Gate("attention, decode", _DECODE, *rest) for rest in _ATTENTION),
    *(
        Gate(f"linear attention, {phase}", (f"linear_attn_{phase}_backend", "linear_attn_backend"), *rest)
        for phase in ("prefill", "decode")
        for rest in (*_LINEAR, ("cutedsl", _in(10), "10.x", "triton"))
    ),
    Gate("linear attention, verify", ("linear_attn_verify_backend",), "triton", _from(8), "8.0 or newer"),
    Gate("linear attention, verify", ("linear_attn_verify_backend",), "flashinfer", _in(9, 10), "9.0 and 10.x",
         "triton"),
    *(Gate("experts", ("moe_runner_backend",), *rest) for rest in _MOE),
    *(Gate("experts of the draft", ("speculative_moe_runner_backend",), *rest) for rest in _MOE),
    Gate("NVFP4 matrix products", ("fp4_gemm_runner_backend",), "flashinfer_cutlass", _in(10, 12), "10.x and 12.x"),
    Gate("NVFP4 matrix products", ("fp4_gemm_runner_backend",), "flashinfer_trtllm", _in(10), "10.x",
         "flashinfer_cutlass"),
    Gate("FP8 matrix products", ("fp8_gemm_runner_backend",), "cutlass", _in(12), "12.x", "auto"),
    Gate("KV cache", ("kv_cache_dtype",), "fp8_e4m3", _from(8, 9), "8.9 or newer", "auto"),
    Gate("index keys", ("qsa_indexer_dtype",), "fp8_e4m3", _in(10), "10.x", "bfloat16"),
    # The wrapper around sparse attention corrupts long contexts on 12.1 (reference, back ends per operation).
    Gate("sparse attention", ("qsa_indexer_dtype",), "bfloat16", lambda c: c != (12, 1), "all but 12.1"),
    Gate("sampling", ("sampling_backend",), "flashinfer", _from(7, 5), "7.5 or newer", "pytorch"),
    Gate("data type", ("dtype",), "bfloat16", _from(8), "8.0 or newer", "float16"),
)  # fmt: skip


def gates_of(case: Case) -> tuple[Gate, ...]:
    """The gates that the settings of the launch go through."""
    chosen = []
    for gate in GATES:
        value = next((case.setting(key) for key in gate.keys if case.setting(key) is not None), None)
        if value == gate.value:
            chosen.append(gate)
    return tuple(chosen)


def _gates(case: Case) -> Iterable[Finding]:
    for gpu in dict.fromkeys((g.name, g.capability) for g in case.facts.gpus[: case.ranks]):
        name, capability = gpu
        major, _, minor = capability.partition(".")
        for gate in gates_of(case):
            if gate.fits((int(major), int(minor))):
                yield ok(f"{gate.operation}: {gate.value} runs on {capability}.")
            else:
                key = next(key for key in gate.keys if case.setting(key) is not None)
                yield fail(
                    f"{gate.operation}: {gate.value} runs on {gate.where}, and {name} is {capability}.",
                    f"Start with --set {key}={gate.instead}." if gate.instead else "Use a GPU of that kind.",
                )


CHECKS = (Check("gpu.gates", "every operation of the launch has kernels for this GPU", _gates, "cuda"),)
