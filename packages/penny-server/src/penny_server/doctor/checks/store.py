"""The namespace of stored prefix state that a launch would use."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penny_cache import namespace
from penny_server.doctor.base import Case, Check, Finding, fail, ok
from penny_server.doctor.digests import chosen_file, draft_folder, folder_digests, sha256

STATE = (
    "context_length", "dtype", "hicache_io_backend", "hicache_mem_layout", "json_model_override_args",
    "kv_cache_dtype", "linear_attn_backend", "linear_attn_decode_backend", "linear_attn_prefill_backend",
    "mamba_radix_cache_strategy", "mamba_ssm_dtype", "mamba_track_interval", "page_size", "qsa_indexer_dtype",
    "quantization", "speculative_algorithm", "speculative_draft_kv_cache_dtype",
    "speculative_draft_model_quantization", "speculative_draft_window_size", "speculative_num_draft_tokens", "tp_size",
)  # fmt: skip
"""SGLang arguments that change the bytes of stored state or their meaning."""
STATE_ENV = ("SGLANG_MAMBA_CONV_DTYPE", "PENNY_DRAFT_OVERRIDES")
PACKAGES = ("sglang", "torch", "penny-cache", "penny-kernels", "penny-server")


def identity(case: Case) -> namespace.Identity:
    """Everything that makes stored state belong to this launch. Raises OSError for files that cannot be read."""
    launch = case.launch
    if launch is None:
        raise ValueError("There is no launch.")
    draft = draft_folder(case)
    files = {
        name: sha256(file)
        for name in ("chat_template", "speculative_token_map")
        if (file := chosen_file(case, name, "")) is not None and file.is_file()
    }
    versions = case.facts.installed.versions or {}
    fields = {
        "models": {
            "target": folder_digests(launch.checkpoint),
            "draft": folder_digests(draft) if draft is not None and draft.is_dir() else None,
        },
        "files": files,
        "settings": {key: _plain(launch.settings.get(key)) for key in STATE},
        "environment": {name: launch.env.get(name) for name in STATE_ENV},
        "features": sorted(launch.features),
        "online_fp8": bool(launch.options.get("online_fp8")),
        "compute_capability": launch.compute_capability,
        "versions": {name: versions.get(name) for name in PACKAGES},
    }
    return namespace.Identity.of(launch.profile, fields)


def _plain(value: object) -> object:
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _namespace(case: Case) -> Iterable[Finding]:
    if case.launch is None or not case.model_given or not case.launch.checkpoint.is_dir():
        return
    named = identity(case)
    store = case.option("store_dir")
    if not store:
        yield ok(f"{named.directory_name}; nothing is stored without store_dir.")
        return
    root = Path(str(store)).expanduser()
    try:
        found = namespace.open(root, named)
    except namespace.NamespaceMissing:
        others = len(namespace.find(root)[0]) if root.is_dir() else 0
        yield ok(f"{root / named.directory_name} would be new; {others} others are there.")
    except namespace.NamespaceError as error:
        yield fail(str(error), f"Remove {root / named.directory_name}: what it holds is a cache.")
    else:
        yield ok(f"{found.path} is there and fits.")


CHECKS = (Check("store.namespace", "the namespace of stored prefix state", _namespace, "launch"),)
