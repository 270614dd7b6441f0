"""Settings against the checkpoint's own config and chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penny_server.errors import ExitCode
from penny_server.profiles.options import as_table
from penny_server.profiles.rules.base import Case, refuse
from penny_server.profiles.rules.draft import check_draft
from penny_server.profiles.rules.token_map import check_token_map

CODER_MARK = "<function="
"""How the templates of Qwen3-Coder and Qwen3.5 and later write a call; `CODER_PARSERS` read it."""
CODER_PARSERS = ("qwen3_coder",)
FLASH_NEXT = "qwen4_exp"
FLASH_NEXT_DTYPES = ("auto", "bfloat16")
FILES = ("chat_template", "speculative_adaptive_config")
"""Arguments that name a file; a chat template may also be the name of one that SGLang knows."""


def check_model(case: Case, folder: Path) -> None:
    """Raises PennyError for settings that do not fit the checkpoint in ``folder``.

    Usage errors name the setting; a config or template that cannot be read, or lacks what SGLang has no default
    for, is a checkpoint error.
    """
    config = _read_config(folder)
    text = {**config, **text_config(config)}
    _files(case)
    check_token_map(case, folder)
    _interval(text, folder)
    _dtype(case, text)
    _context(case, text)
    _index_ratio(case, text)
    _parser(case, folder)
    draft = case.get("speculative_draft_model_path")
    if draft:
        check_draft(case, text, _read_config(Path(str(draft))), Path(str(draft)))


def text_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The language model's part of a config, which text-only checkpoints write at the top."""
    inner = config.get("text_config")
    return dict(inner) if isinstance(inner, Mapping) else dict(config)


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        refuse(f"{path} cannot be read: {reason}.", "Fetch the checkpoint again.", ExitCode.CHECKPOINT)
    if not isinstance(config, dict):
        refuse(f"{path} holds no JSON object.", "Fetch the checkpoint again.", ExitCode.CHECKPOINT)
    return config


def _files(case: Case) -> None:
    for name in FILES:
        value = str(case.get(name, ""))
        if Path(value).suffix and not Path(value).is_file():
            refuse(
                f"{name} is {value}, and there is no such file.",
                f"Give its whole path, or take it away: --set {name}=",
            )


def _interval(text: Mapping[str, Any], folder: Path) -> None:
    hybrid = "linear_num_key_heads" in text
    if hybrid and not text.get("full_attention_interval"):
        refuse(
            f"{folder / 'config.json'} has no full_attention_interval, which SGLang has no default for.",
            "Add it to text_config; for the Qwen3.8 models it is 4.",
            ExitCode.CHECKPOINT,
        )


def _dtype(case: Case, text: Mapping[str, Any]) -> None:
    """SGLang has bfloat16 in the code of the family (``models/qwen4_exp.py``); a feature for tests lifts it."""
    dtype = case.get("dtype", "auto")
    family = str(text.get("model_type", "")).startswith(FLASH_NEXT)
    if family and dtype not in FLASH_NEXT_DTYPES and "next-float32" not in case.features:
        refuse(
            f"dtype is {dtype}, and SGLang keeps parts of a Flash-Next model in bfloat16 whatever it is told, which "
            "do not run beside another dtype.",
            "Set dtype to bfloat16.",
        )


def reach(text: Mapping[str, Any], overrides: Mapping[str, Any]) -> int | None:
    """How many tokens the rotary embedding reaches with the config overrides; None when the config does not say.

    With YaRN that is ``factor`` times the original length, whatever ``max_position_embeddings`` says.
    """
    merged = {**text, **text_config(overrides)}
    rope = merged.get("rope_parameters") or merged.get("rope_scaling") or {}
    if isinstance(rope, Mapping) and rope.get("rope_type", rope.get("type")) == "yarn":
        original = rope.get("original_max_position_embeddings") or text.get("max_position_embeddings")
        return int(original * float(rope.get("factor", 1))) if original else None
    native = merged.get("max_position_embeddings")
    return int(native) if native else None


def _context(case: Case, text: Mapping[str, Any]) -> None:
    length = case.number("context_length")
    limit = reach(text, as_table("json_model_override_args", case.get("json_model_override_args")))
    if length is None or limit is None or length <= limit:
        return
    native = int(text.get("max_position_embeddings") or limit)
    refuse(
        f"context_length is {length:,}, and the positions of this checkpoint reach {limit:,} with these settings.",
        f"Ask for {limit} tokens at most, or set yarn_factor to {-(-length // native)} or more.",
    )


def _index_ratio(case: Case, text: Mapping[str, Any]) -> None:
    ratio, tokens = text.get("indexer_compress_ratio"), case.number("speculative_num_draft_tokens")
    if not ratio:
        return
    if tokens is not None and tokens > int(ratio):
        refuse(
            f"speculative_num_draft_tokens is {tokens}, and the sparse-attention index of this checkpoint takes at "
            f"most {ratio}: one group of keys.",
            f"Set speculative_num_draft_tokens to {ratio} or less.",
        )
    if case.get("enable_mixed_chunk"):
        refuse(
            "enable_mixed_chunk cuts prefill chunks inside a group of the sparse-attention index, which ends SGLang.",
            "Take it away: --set enable_mixed_chunk=false",
        )


def _template(case: Case, folder: Path) -> str:
    given = case.get("chat_template")
    places = [Path(str(given))] if given else [folder / "chat_template.jinja", folder / "chat_template.json"]
    for place in places:
        if place.is_file():
            return place.read_text(encoding="utf-8", errors="replace")
    config = folder / "tokenizer_config.json"
    return config.read_text(encoding="utf-8", errors="replace") if config.is_file() and not given else ""


def _parser(case: Case, folder: Path) -> None:
    parser = case.get("tool_call_parser")
    if parser and parser not in CODER_PARSERS and CODER_MARK in _template(case, folder):
        refuse(
            f"tool_call_parser is {parser}, and the chat template makes the model write calls with {CODER_MARK}NAME>, "
            "which that parser does not read.",
            f"Set tool_call_parser to {CODER_PARSERS[0]}.",
        )
