"""Settings of ours that stand for several SGLang arguments or environment variables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penny_server.errors import ExitCode, PennyError
from penny_server.nearest import did_you_mean

EFFORTS: Mapping[str, str | None] = {
    "none": None,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "xhigh",
    "xhigh": "xhigh",
    "max": "xhigh",
}
"""What a reasoning effort is to the model's chat template, which knows low, medium and xhigh; None: no thinking."""

CACHE_FOLDERS: Mapping[str, str] = {
    "HF_HOME": "huggingface",
    "XDG_CACHE_HOME": "",
    "TORCH_HOME": "torch",
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
    "TRITON_CACHE_DIR": "triton",
    "CUDA_CACHE_PATH": "cuda",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "SGLANG_CACHE_DIR": "sglang",
    "SGLANG_JIT_CACHE_DIR": "sglang/jit",
}
BUILD_JOBS = (
    "MAX_JOBS",
    "CMAKE_BUILD_PARALLEL_LEVEL",
    "CARGO_BUILD_JOBS",
    "FLASHINFER_NINJA_JOBS",
    "TORCHINDUCTOR_COMPILE_THREADS",
)
DRAFT_OVERRIDES_ENV = "PENNY_DRAFT_OVERRIDES"
ADAPTIVE_ENV = "PENNY_ADAPTIVE"
ACCEPTANCE_ENV = "PENNY_ACCEPTANCE"


JSON = ("json_model_override_args", "default_chat_template_kwargs")
"""SGLang arguments whose value is a JSON object; in resolved settings it is a table."""


class Draft:
    """SGLang arguments and environment while they are being put together."""

    def __init__(self) -> None:
        self.sglang: dict[str, Any] = {}
        self.env: dict[str, str | None] = {}

    def table(self, key: str) -> dict[str, Any]:
        """A copy of the JSON argument ``key`` as a table; raises PennyError (usage) when it is none."""
        return as_table(key, self.sglang.get(key))


def as_table(key: str, value: Any) -> dict[str, Any]:
    """``value`` of the JSON argument ``key`` as a table; raises PennyError (usage) when it is none."""
    try:
        table = json.loads(value) if isinstance(value, str) and value else value or {}
    except ValueError as error:
        raise PennyError(f"{key} is not valid JSON: {error}.", ExitCode.USAGE) from error
    if not isinstance(table, dict):
        raise PennyError(f"{key} takes a JSON object, and got {value!r}.", ExitCode.USAGE)
    copied: dict[str, Any] = json.loads(json.dumps(table))
    return copied


def _effort(draft: Draft, value: Any) -> None:
    kwargs = draft.table("default_chat_template_kwargs")
    effort = EFFORTS[value]
    kwargs["enable_thinking"] = effort is not None
    kwargs.pop("reasoning_effort", None)
    draft.sglang["default_chat_template_kwargs"] = kwargs | ({"reasoning_effort": effort} if effort else {})


def _media(draft: Draft, value: Any) -> None:
    draft.sglang["image_processor_backend"] = "pil" if value == "cpu" else "torchvision"


def _ple(draft: Draft, value: Any) -> None:
    draft.sglang["ple_offload_embedding"] = value == "ram"


def _yarn(draft: Draft, value: Any) -> None:
    for key in ("json_model_override_args", DRAFT_OVERRIDES_ENV):
        holder: dict[str, Any] = draft.env if key == DRAFT_OVERRIDES_ENV else draft.sglang
        table = as_table(key, holder.get(key))
        text = table.get("text_config", table)
        rope = text.get("rope_parameters")
        if not isinstance(rope, dict) or "original_max_position_embeddings" not in rope:
            if key == DRAFT_OVERRIDES_ENV:
                continue
            raise PennyError(
                f"yarn_factor is {value} and {key} has no rope_parameters to put it into; this profile uses no YaRN.",
                ExitCode.USAGE,
            )
        rope["factor"] = float(value)
        if "max_position_embeddings" in text:
            text["max_position_embeddings"] = int(rope["original_max_position_embeddings"] * value)
        holder[key] = compact(table) if key == DRAFT_OVERRIDES_ENV else table


def _draft_overrides(draft: Draft, value: Any) -> None:
    draft.env[DRAFT_OVERRIDES_ENV] = compact(as_table("draft_overrides", value))


def _adaptive(draft: Draft, value: Any) -> None:
    draft.env[ADAPTIVE_ENV] = compact(as_table("adaptive", value))


def _acceptance(draft: Draft, value: Any) -> None:
    draft.env[ACCEPTANCE_ENV] = str(value)


def _cache(draft: Draft, value: Any) -> None:
    root = str(value).rstrip("/")
    draft.env |= {name: f"{root}/{folder}".rstrip("/") for name, folder in CACHE_FOLDERS.items()}


def _jobs(draft: Draft, value: Any) -> None:
    draft.env |= {name: str(value) for name in BUILD_JOBS}


def _nothing(draft: Draft, value: Any) -> None:
    """Read by the feature itself."""


def compact(table: Mapping[str, Any]) -> str:
    """JSON without white space, as an argument or environment value."""
    return json.dumps(table, separators=(",", ":"))


@dataclass(frozen=True)
class Option:
    """One option: what it takes, what it does, and what it puts into SGLang's arguments and environment."""

    summary: str
    takes: str
    fits: Callable[[Any], bool]
    apply: Callable[[Draft, Any], None] = _nothing
    choices: tuple[str, ...] = ()


def _one_of(summary: str, choices: tuple[str, ...], apply: Callable[[Draft, Any], None]) -> Option:
    return Option(summary, f"one of {', '.join(choices)}", lambda v: v in choices, apply, choices)


def _folder(summary: str, apply: Callable[[Draft, Any], None] = _nothing) -> Option:
    return Option(summary, "a folder", lambda v: isinstance(v, str) and bool(v), apply)


OPTIONS: Mapping[str, Option] = {
    "reasoning_effort": _one_of(
        "how long the model thinks unless a request says so", tuple(EFFORTS), _effort
    ),
    "media_device": Option(
        "where images are decoded and scaled: cpu, or a GPU",
        "cpu or cuda:N",
        lambda v: isinstance(v, str) and re.fullmatch(r"cpu|cuda:\d+", v) is not None,
        _media,
    ),
    "ple_backend": _one_of("where Flash-Next's n-gram tables are", ("ram", "nvme"), _ple),
    "ple_nvme_model": _folder("the prepared checkpoint folder for ple_backend nvme"),
    "online_fp8": Option(
        "FP8 for the BF16 projections of an NVFP4 checkpoint", "true or false", lambda v: isinstance(v, bool)
    ),
    "yarn_factor": Option(
        "how many times the native context YaRN reaches",
        "a number of 1 or more",
        lambda v: isinstance(v, int | float) and not isinstance(v, bool) and v >= 1,
        _yarn,
    ),
    "draft_overrides": Option(
        "the draft model's own config overrides; those of the model never reach it",
        "a table",
        lambda v: isinstance(v, dict) or (isinstance(v, str) and v.startswith("{")),
        _draft_overrides,
    ),
    "adaptive": Option(
        "draft tokens to choose from while serving, by the smallest batch size: { 1 = [3, 7], 2 = [3] }",
        "a table",
        lambda v: isinstance(v, dict) or (isinstance(v, str) and v.startswith("{")),
        _adaptive,
    ),
    "acceptance": Option(
        "the file of calibrated acceptance rates that the guard holds drafts against",
        "a file",
        lambda v: isinstance(v, str) and bool(v),
        _acceptance,
    ),
    "cache_dir": _folder("one folder for all caches of downloads and compiled kernels", _cache),
    "build_jobs": Option(
        "compilers that may run at once",
        "a whole number above zero",
        lambda v: isinstance(v, int) and not isinstance(v, bool) and v > 0,
        _jobs,
    ),
    "store_dir": _folder("where the cache store keeps prefix state"),
}


def checked_option(name: str, value: Any, *, where: str) -> Any:
    """``value`` if the option ``name`` takes it; raises PennyError (usage) otherwise."""
    option = OPTIONS[name]
    if not option.fits(value):
        hint = did_you_mean(str(value), option.choices) if option.choices else ""
        raise PennyError(f"{where} takes {option.takes}, and got {value!r}.", ExitCode.USAGE, hint)
    return value


TURNED_OFF: Mapping[str, tuple[str, Any]] = {
    "online-fp8": ("online_fp8", False),
    "ple-nvme": ("ple_backend", "ram"),
    "media-device": ("media_device", "cpu"),
}
"""Features that an option asks for: the option, and its value without the feature."""


def implied_needs(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The features that the values of the options ask for."""
    wanted = {
        "online-fp8": options.get("online_fp8") is True,
        "ple-nvme": options.get("ple_backend") == "nvme",
        "media-device": str(options.get("media_device", "cpu")) not in ("cpu", "cuda:0"),
    }
    return tuple(name for name, asked in wanted.items() if asked)
