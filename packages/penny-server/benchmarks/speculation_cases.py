"""What gpu_speculation.sh serves: full-size shapes with weights of noise, with and without drafts, ours and stock.

    python speculation_cases.py            # lists the cases

A case is ``SHAPE[-DRAFTS][@stock]``. Weights of noise accept no draft, so acceptance is simulated, with the draft's own
tokens: 3.0 tokens a verify for NEXTN, 3.8 for DFlash2. Experts are drawn evenly (noise would route every token alike).
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VOCABULARY = 248_320
MAP_ROWS = 65_536
FAMILIES = {"27b": 24, "next": 12}
NEXTN = {
    "speculative_algorithm": "NEXTN",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
}
DFLASH = {
    "speculative_algorithm": "DFLASH",
    "speculative_num_draft_tokens": 8,
    "speculative_draft_model_path": "{draft}",
    # Without it --quantization fp8 holds for the draft too, which turns the fused writing of its KV off.
    "speculative_draft_model_quantization": "unquant",
    "speculative_draft_attention_backend": "triton",
    "speculative_draft_window_size": 2048,
}
COMMON = {
    "load_format": "dummy",
    "skip_tokenizer_init": True,
    "dtype": "bfloat16",
    "attention_backend": "triton",
    "linear_attn_backend": "triton",
    "sampling_backend": "pytorch",
    "page_size": 64,
    "mamba_radix_cache_strategy": "extra_buffer",
    "max_mamba_cache_size": 24,
    "context_length": 8192,
    "max_total_tokens": 32768,
    "max_running_requests": 4,
    "chunked_prefill_size": 2048,
    "cuda_graph_max_bs_decode": 4,
    "cuda_graph_backend_prefill": "disabled",
    # Servers share the GPU; the pools are bounded above, so this only has to be enough.
    "mem_fraction_static": 0.92,
}
FAMILY = {
    "27b": {"quantization": "fp8"},
    "next": {"ple_offload_embedding": False},
}
DRAFTS: dict[str, dict[str, Any]] = {
    "": {},
    "nextn": NEXTN,
    "dflash": DFLASH,
    "frspec": NEXTN | {"speculative_token_map": "{map}"},
}
ACCEPTED = {"nextn": "3.0", "frspec": "3.0", "dflash": "3.8"}
FEATURES = ("progress", "pools", "requests", "drain", "penalties")
SAID = {
    "selector folded": "DFLASH selector decode folded into the draft cuda graph",
    "fused KV active": "DFLASH fused KV materialization enabled",
}
"""What the log of a DFlash2 server must hold."""


@dataclass(frozen=True)
class Case:
    """One server; ``settings`` are SGLang's arguments, ``features`` our seams (none: stock)."""

    name: str
    family: str
    drafts: str
    stock: bool
    settings: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = ()

    @property
    def loading_gib(self) -> int:
        """GPU memory that loading takes at most: FP8 is made of BF16 weights that are all there before."""
        return {"27b": 54, "next": 30}[self.family]

    @property
    def serving_gib(self) -> int:
        """What it keeps then: weights, draft, pools, graphs; a bound."""
        return {"27b": 38, "27b-nextn": 44, "27b-frspec": 44, "27b-dflash": 45}.get(
            self.name.partition("@")[0], 30
        )


def names() -> list[str]:
    """Every case, ours and stock."""
    kinds = ["27b", "27b-nextn", "27b-frspec", "27b-dflash", "next", "next-nextn", "next-frspec"]
    return [name + stock for name in kinds for stock in ("", "@stock")]


def case(name: str, more_features: tuple[str, ...] = ()) -> Case:
    """The case of that name; ``more_features`` are for ours with drafts. Raises ValueError for an unknown one."""
    if name not in names():
        raise ValueError(f"There is no case {name}; the cases are {', '.join(names())}.")
    plain, _, stock = name.partition("@")
    family, _, drafts = plain.partition("-")
    env = {"SGLANG_SIMULATE_UNIFORM_EXPERTS": "1"} if family == "next" else {}
    if drafts:
        env |= {
            "SGLANG_SIMULATE_ACC_LEN": ACCEPTED[drafts],
            "SGLANG_SIMULATE_ACC_TOKEN_MODE": "real-draft-token",
        }
    features = FEATURES
    if drafts:
        features += ("spec-penalties", *more_features)
    if drafts == "frspec":
        features += ("token-map",)
    settings = COMMON | FAMILY[family] | DRAFTS[drafts]
    return Case(
        name, family, drafts, bool(stock), settings, env, () if stock else tuple(dict.fromkeys(features))
    )


def flags(settings: Mapping[str, Any]) -> list[str]:
    """The settings as SGLang's command line."""
    words: list[str] = []
    for key, value in settings.items():
        option = key.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", str(value)]
    return words


def write_shapes(folder: Path) -> dict[str, Path]:
    """Writes the folders that the cases name: 27b, next, draft (configurations) and map (a draft vocabulary)."""
    from penny_models.shapes import known_config, merged
    from penny_spec.frspec.mapfile import map_bytes, write_whole

    dense, sparse = known_config("qwen38-27b"), known_config("flash-next-nvfp4")
    sparse.pop("quantization_config")
    text = sparse["text_config"]
    layers = FAMILIES["next"]
    small = {
        "num_hidden_layers": layers,
        "layer_types": text["layer_types"][:layers],
        "num_experts": 128,
        "ngram_vocab_size_base": 200_000,
        "split_ngram_parts": 4,
    }
    for key in ("ple_embedding_dtype", "mamba_ssm_dtype"):
        text.pop(key)
    configs = {
        "27b": dense,
        "next": merged(sparse, {"text_config": small}),
        "draft": known_config("dflash2-27b"),
    }
    for name, config in configs.items():
        if name != "draft":
            config.pop("vision_config")
            config["language_model_only"] = True
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "config.json").write_text(json.dumps(config))
    # The seam that checks a map asks the tokenizer for the vocabulary; words stand in for one.
    vocabulary = {f"w{i}": i for i in range(VOCABULARY)}
    words = {
        "version": "1.0",
        "added_tokens": [],
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "w0"},
    }
    for name in ("27b", "next"):
        (folder / name / "tokenizer.json").write_text(json.dumps(words))
    ids = sorted(random.Random(0).sample(range(VOCABULARY), MAP_ROWS))
    write_whole(folder / "map.pt", map_bytes(ids))
    return {name: folder / name for name in configs} | {"map": folder / "map.pt"}


if __name__ == "__main__":
    print("\n".join(names()))
