"""Kernel back ends that the GPU of the profile does not have, or that stock replaces in silence."""

from __future__ import annotations

from penny_server.profiles.backends import SM120
from penny_server.profiles.rules.base import Case, Rule, refuse

SM100_ONLY = {
    "moe_runner_backend": (
        "flashinfer_trtllm",
        "flashinfer_trtllm_routed",
        "experimental_sgl_trtllm",
        "flashinfer_megamoe",
    ),
    "speculative_moe_runner_backend": (
        "flashinfer_trtllm",
        "flashinfer_trtllm_routed",
        "experimental_sgl_trtllm",
        "flashinfer_megamoe",
    ),
    "fp4_gemm_runner_backend": ("flashinfer_trtllm",),
    "fp8_gemm_runner_backend": ("flashinfer_trtllm",),
    "qsa_indexer_dtype": ("fp8_e4m3",),
    "linear_attn_prefill_backend": ("cutedsl",),
    "linear_attn_verify_backend": ("flashinfer",),
}
"""Values whose kernels exist for compute capability 10.x (some also 9.0) and not for 12.0."""

INSTEAD = {
    "moe_runner_backend": "flashinfer_cutlass",
    "speculative_moe_runner_backend": "flashinfer_cutlass",
    "fp4_gemm_runner_backend": "flashinfer_cutlass",
    "fp8_gemm_runner_backend": "cutlass",
    "qsa_indexer_dtype": "bfloat16",
    "linear_attn_prefill_backend": "flashinfer or triton",
    "linear_attn_verify_backend": "triton",
}

ATTENTION = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")
HYBRID_SM120 = ("triton", "trtllm_mha", "flashinfer")
KDA_ONLY = ("flashkda", "nvidia_kda", "ptx_kda", "helion")


def _not_on_sm120(case: Case) -> None:
    if case.capability != SM120:
        return
    for key, values in SM100_ONLY.items():
        if case.get(key) in values:
            refuse(
                f"{key} {case.get(key)} needs an SM100 GPU (compute capability 10.x), and this is {SM120}.",
                f"Set {key} to {INSTEAD[key]}.",
            )
    for key in ATTENTION:
        if case.get(key) is not None and case.get(key) not in HYBRID_SM120:
            refuse(
                f"{key} is {case.get(key)}; beside GDN layers on compute capability {SM120}, SGLang takes only "
                f"{', '.join(HYBRID_SM120)}."
            )
    prefill = case.get("prefill_attention_backend", case.get("attention_backend"))
    if prefill == "trtllm_mha" and case.get("kv_cache_dtype") == "fp8_e4m3":
        refuse(
            f"Prefill by trtllm_mha reads no fp8_e4m3 KV cache on compute capability {SM120}.",
            "Set prefill_attention_backend to flashinfer and keep trtllm_mha for decode_attention_backend.",
        )


def _linear_attention(case: Case) -> None:
    base = case.get("linear_attn_backend", "triton")
    for key in ("linear_attn_backend", "linear_attn_decode_backend", "linear_attn_prefill_backend"):
        if case.get(key) in KDA_ONLY:
            refuse(
                f"{key} {case.get(key)} is for KDA layers, and this model has GDN layers.",
                "Set it to triton.",
            )
    if str(case.get("mamba_radix_cache_strategy", "")).startswith("extra_buffer") and base != "triton":
        refuse(
            f"linear_attn_backend is {base}, and the prefix cache with extra_buffer needs triton there.",
            "Leave it, and set linear_attn_decode_backend and linear_attn_prefill_backend instead.",
        )
    major = int(case.capability.partition(".")[0]) if case.capability else 0
    decode = case.get("linear_attn_decode_backend", base)
    if decode == "flashinfer" and major >= 10 and case.get("mamba_ssm_dtype") != "bfloat16":
        refuse(
            f"linear_attn_decode_backend flashinfer keeps its recurrent state in bfloat16, and mamba_ssm_dtype is "
            f"{case.get('mamba_ssm_dtype', 'not set')}.",
            "Set mamba_ssm_dtype to bfloat16, or the decode backend to triton.",
        )


def _media(case: Case) -> None:
    device, processor = case.options.get("media_device"), case.get("image_processor_backend")
    fitting = "pil" if device == "cpu" else "torchvision"
    if device is not None and processor is not None and processor != fitting:
        refuse(
            f"media_device is {device}, which image_processor_backend {fitting} does, and it is {processor}.",
            "Set media_device alone: cpu, or cuda:0 for the model's GPU.",
        )


RULES: tuple[Rule, ...] = (_not_on_sm120, _linear_attention, _media)
