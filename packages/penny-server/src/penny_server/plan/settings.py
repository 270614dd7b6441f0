"""The settings that decide memory, out of all that a launch has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from penny_server.errors import ExitCode, PennyError
from penny_server.profiles import Device, Launch

Spec = Literal["none", "nextn", "dflash"]
RadixStrategy = Literal["no_buffer", "extra_buffer", "extra_buffer_lazy"]
_SPEC: dict[str, Spec] = {"NEXTN": "nextn", "EAGLE": "nextn", "DFLASH": "dflash"}
SPEC_REQUESTS = 48
"""Requests that SGLang assumes with speculation when none are given (``arg_groups/speculative_hook.py``)."""
NEXTN_STEPS = 3
MAP_ROWS = 65_536
"""Of a token map that has no manifest beside it: those of the map for Flash-Next."""
TRUE = ("1", "true", "yes", "y")


@dataclass(frozen=True)
class PlanSettings:
    """SGLang's arguments and our features, as far as they decide memory; None is SGLang's default.

    ``recover_ssm`` keeps no recurrent state per draft token, but SGLang goes on charging it
    (``kv_cache_configurator.py``, ``_handle_max_mamba_cache``); ``charge_states`` false is a build that does not.
    ``ple`` says where PLE tables lie: on the host beside a GPU, on a drive, or with the model on its device.
    ``unbuilt`` are features that the plan counts on and that do not exist yet.
    """

    device: Device = "cuda"
    dtype: str = "bfloat16"
    kv_dtype: str = "auto"
    index_dtype: str = "auto"
    ssm_dtype: str | None = None
    conv_dtype: str = "bfloat16"
    context: int | None = None
    long_context_allowed: bool = False
    page: int = 1
    fraction: float | None = None
    max_tokens: int | None = None
    requests: int | None = None
    slots: int | None = None
    slot_ratio: float = 0.9
    strategy: RadixStrategy = "no_buffer"
    radix: bool = True
    overlap: bool = True
    skip_decode_lock: bool = False
    chunk: int | None = None
    decode_batch: int | None = None
    graphs: bool = True
    prefill_graphs: bool = True
    attention: tuple[str, ...] = ()
    text_only: bool = False
    transport: str | None = None
    vision_cache_mib: int | None = None
    spec: Spec = "none"
    draft_tokens: int = 0
    draft_path: str | None = None
    draft_quantization: str | None = None
    draft_kv_dtype: str | None = None
    draft_overrides: Mapping[str, Any] = field(default_factory=dict)
    token_map: bool = False
    map_rows: int = MAP_ROWS
    replay: bool = False
    replay_length: int = 16
    recover_ssm: bool = False
    charge_states: bool = True
    online_fp8: bool = False
    ple: Literal["ram", "nvme", "device"] = "ram"
    hicache: bool = False
    hicache_gb: float = 0.0
    hicache_ratio: float | None = None
    store: str | None = None
    tp: int = 1
    gpus: int = 1
    unbuilt: tuple[str, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)


def settings_of(launch: Launch) -> PlanSettings:
    """The plan settings of a resolved launch. Raises PennyError (usage) for what cannot be planned."""
    features = frozenset(launch.features) | frozenset(launch.needs)
    read = read_settings(launch.settings, launch.env, launch.options, features, launch.device)
    return replace(read, unbuilt=tuple(launch.needs))


def read_settings(
    args: Mapping[str, Any],
    env: Mapping[str, str],
    options: Mapping[str, Any],
    features: frozenset[str],
    device: Device,
) -> PlanSettings:
    """The same from SGLang's arguments by name, the environment, our options and the features in use."""
    algorithm = str(args.get("speculative_algorithm") or "").upper()
    if algorithm and algorithm not in _SPEC:
        raise PennyError(
            f"speculative_algorithm is {algorithm}; the planner knows {' and '.join(_SPEC)}, so plan without it.",
            ExitCode.USAGE,
        )
    spec = _SPEC.get(algorithm, "none")
    page = int(args.get("page_size") or 1)
    # Speculation without a GPU goes step by step (``speculative_hook.py``, ``_disable_overlap_schedule_for_cpu``).
    overlap = not args.get("disable_overlap_schedule", False) and not (device == "cpu" and spec != "none")
    strategy = str(args.get("mamba_radix_cache_strategy") or "auto")
    if strategy == "auto":
        triton = str(args.get("linear_attn_backend") or "triton") == "triton"
        strategy = "extra_buffer" if triton and (overlap or page > 1) else "no_buffer"
    backend = str(options.get("ple_backend", "nvme" if "ple-nvme" in features else "ram"))
    dtype = _name(args.get("dtype"), "bfloat16")
    offload = args.get("ple_offload_embedding")
    if offload is None:  # SGLang's own choice (``model_overrides/qwen4_exp.py``)
        offload = device == "cuda" and dtype == "bfloat16"
    return PlanSettings(
        device=device,
        dtype=dtype,
        kv_dtype=_name(args.get("kv_cache_dtype"), "auto"),
        index_dtype=_name(args.get("qsa_indexer_dtype"), "auto"),
        ssm_dtype=args.get("mamba_ssm_dtype") or env.get("SGLANG_MAMBA_SSM_DTYPE"),
        conv_dtype=env.get("SGLANG_MAMBA_CONV_DTYPE") or "bfloat16",
        context=_int(args, "context_length"),
        long_context_allowed=_on(env, "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"),
        page=page,
        fraction=None if args.get("mem_fraction_static") is None else float(args["mem_fraction_static"]),
        max_tokens=_int(args, "max_total_tokens"),
        requests=_int(args, "max_running_requests") or (SPEC_REQUESTS if spec != "none" else None),
        slots=_int(args, "max_mamba_cache_size"),
        slot_ratio=float(args.get("mamba_full_memory_ratio") or 0.9),
        strategy=strategy,  # type: ignore[arg-type]
        radix=not args.get("disable_radix_cache", False),
        overlap=overlap and strategy != "no_buffer",
        skip_decode_lock=_on(env, "SGLANG_OPT_MAMBA_SKIP_DECODE_LOCK"),
        chunk=_int(args, "chunked_prefill_size"),
        decode_batch=_int(args, "cuda_graph_max_bs_decode"),
        graphs=str(args.get("cuda_graph_backend_decode") or "") != "disabled" and device == "cuda",
        prefill_graphs=str(args.get("cuda_graph_backend_prefill") or "") != "disabled" and device == "cuda",
        attention=tuple(
            sorted(
                {
                    str(args[key])
                    for key in (
                        "attention_backend",
                        "decode_attention_backend",
                        "prefill_attention_backend",
                        "speculative_draft_attention_backend",
                    )
                    if args.get(key)
                }
            )
        ),
        text_only=bool(args.get("language_model_only", False)),
        transport=args.get("mm_feature_transport"),
        vision_cache_mib=int(env["SGLANG_VLM_CACHE_SIZE_MB"]) if "SGLANG_VLM_CACHE_SIZE_MB" in env else None,
        spec=spec,
        draft_tokens=_draft_tokens(args, spec),
        draft_path=args.get("speculative_draft_model_path"),
        draft_quantization=args.get("speculative_draft_model_quantization"),
        draft_kv_dtype=args.get("speculative_draft_kv_cache_dtype"),
        draft_overrides=_table("PENNY_DRAFT_OVERRIDES", env.get("PENNY_DRAFT_OVERRIDES")),
        token_map=bool(args.get("speculative_token_map")),
        map_rows=_map_rows(str(args.get("speculative_token_map") or "")),
        replay=bool(args.get("enable_linear_replayssm_spec", False)),
        replay_length=int(args.get("linear_replayssm_cache_len") or 16),
        recover_ssm="recover-ssm" in features,
        online_fp8=bool(options.get("online_fp8", False)) or "online-fp8" in features,
        ple="nvme" if backend == "nvme" else "ram" if offload else "device",
        hicache=bool(args.get("enable_hierarchical_cache", False)),
        hicache_gb=float(args.get("hicache_size") or 0),
        hicache_ratio=None if args.get("hicache_ratio") is None else float(args["hicache_ratio"]),
        store=args.get("hicache_storage_backend"),
        tp=int(args.get("tp_size") or 1),
        overrides=_table("json_model_override_args", args.get("json_model_override_args")),
    )


def _name(value: Any, default: str) -> str:
    return default if value in (None, "", "auto") else str(value)


def _int(args: Mapping[str, Any], key: str) -> int | None:
    return None if args.get(key) is None else int(args[key])


def _on(env: Mapping[str, str], key: str) -> bool:
    return env.get(key, "").lower() in TRUE


def _draft_tokens(args: Mapping[str, Any], spec: Spec) -> int:
    given = _int(args, "speculative_num_draft_tokens")
    if spec == "none" or given is not None:
        return given or 0
    if spec == "dflash":
        return _int(args, "speculative_dflash_block_size") or 0
    return (_int(args, "speculative_num_steps") or NEXTN_STEPS) + 1


def _map_rows(path: str) -> int:
    # As `penny_spec.frspec.manifest_path`, which would bring torch into a plan.
    beside = Path(f"{path.removesuffix('.pt')}.manifest.json")
    if not beside.is_file():
        return MAP_ROWS
    return int(_table(str(beside), beside.read_text(encoding="utf-8")).get("size") or MAP_ROWS)


def _table(key: str, value: Any) -> dict[str, Any]:
    try:
        found = json.loads(value) if isinstance(value, str) and value else value or {}
    except ValueError as error:
        raise PennyError(f"{key} is not valid JSON: {error}.", ExitCode.USAGE) from error
    if not isinstance(found, Mapping):
        raise PennyError(f"{key} takes a JSON object, and got {value!r}.", ExitCode.USAGE)
    return dict(found)
