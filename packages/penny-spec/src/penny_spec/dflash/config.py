"""A draft's config.json: what DFlash and DFlash2 read in it, with every rule checked."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penny_spec.dflash.fields import Fields
from penny_spec.dflash.rotary import Rope, read_rope

DEFAULT_BLOCK_SIZE = 16
DEFAULT_MASK_TOKEN = "<|MASK|>"


@dataclass(frozen=True)
class LayerSight:
    """What a row of a block sees in one layer.

    Attributes:
        window: tokens seen back from the row, the row itself included (the meaning of `sliding_window` in
            config.json); None: all of them.
        causal: whether the later rows of the block are hidden.
    """

    window: int | None
    causal: bool

    @property
    def window_left(self) -> int:
        """SGLang's number for the window: tokens before the row, the row not included; -1 without a window."""
        return -1 if self.window is None else self.window - 1


@dataclass(frozen=True)
class DraftConfig:
    """The numbers of a draft that its mathematics needs. Pairs that are absent are 0.

    Attributes:
        num_target_layers: layers of the target that the draft was trained for, None if the file is silent.
        block_size: rows of a block: the verified anchor and the proposals, so one more than draft tokens.
        target_layer_ids: the target layers (from 0) after which hidden states are taken, None: evenly spaced.
        sights: what rows see, one entry a draft layer.
        mask_token_id: the token whose embedding stands for one not yet proposed, None: look `mask_token` up.
        output_multiplier: multiplies the head's logits, positive.
        softcap: caps logits as `softcap * tanh(logits / softcap)`, None: not.
        unsupported: names of fields that change the mathematics and that `Drafter` does not compute.
    """

    hidden_size: int
    intermediate_size: int
    num_layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    eps: float
    rope: Rope
    sights: tuple[LayerSight, ...]
    num_target_layers: int | None
    block_size: int
    target_layer_ids: tuple[int, ...] | None
    mask_token: str
    mask_token_id: int | None
    conv_kernel_size: int
    conv_group_size: int
    selector_rank: int
    selector_top_k: int
    output_multiplier: float
    softcap: float | None
    unsupported: tuple[str, ...] = ()

    @property
    def feature_count(self) -> int:
        """Hidden states that are put side by side for one context token."""
        return self.num_layers if self.target_layer_ids is None else len(self.target_layer_ids)

    def resolve_layer_ids(self, target_layers: int) -> tuple[int, ...]:
        """The target layers of the features, for a target of `target_layers` layers.

        Raises:
            ValueError: an id outside the target, or a target too small for evenly spaced ids.
        """
        ids = self.target_layer_ids
        if ids is None:
            return spaced_layer_ids(target_layers, self.num_layers)
        check_range(ids, target_layers)
        return ids


def read_config(path: Path) -> DraftConfig:
    """Read a draft's config.json, or the one in the folder `path`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not a JSON object, or a rule of `parse_config` is broken.
    """
    file = path / "config.json" if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(f"There is no file {file}; give the folder of the draft checkpoint.")
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is not JSON ({error}); copy the draft's config.json again.") from error
    if not isinstance(found, dict):
        raise ValueError(f"{file} holds a {type(found).__name__}; a config.json is a JSON object.")
    return parse_config(found)


def parse_config(config: Mapping[str, Any]) -> DraftConfig:
    """Check and take over a draft's config.json, by the rules of SGLang's `parse_dflash_draft_config` and more.

    Fields of the block may stand in `dflash_config` or at the top; `dflash_config` wins. Beyond SGLang, a block
    of one row, layer ids out of order, a kernel longer than the block, a group that does not divide the hidden
    size, more candidates than tokens and a `layer_types` of a wrong length are refused.

    Raises:
        ValueError: a value is missing, of a wrong type or out of range, or only one of a pair is there.
    """
    top = Fields("config.json", config)
    flash = Fields("dflash_config", top.mapping("dflash_config") or {})
    either = Fields("dflash_config", *flash.objects, config)
    nested = top.mapping("text_config")
    text = top if nested is None else Fields("text_config", nested)

    hidden = text.required("hidden_size")
    heads = text.required("num_attention_heads")
    kv_heads = text.whole("num_key_value_heads", 1) or heads
    if heads % kv_heads:
        raise ValueError(f"{text.name} has {heads} heads over {kv_heads} KV heads; it must be a multiple.")
    head_dim = text.whole("head_dim", 2) or hidden // heads
    layers = text.required("num_hidden_layers")
    vocabulary = text.required("vocab_size")
    rope, rope_rest = read_rope(text, head_dim)

    block = either.whole("block_size", 2) or DEFAULT_BLOCK_SIZE
    taps, group = flash.pair("conv_kernel_size", "conv_group_size")
    if group and hidden % group:
        raise ValueError(f"dflash_config has conv_group_size {group}; it must divide hidden_size {hidden}.")
    if taps > block:
        raise ValueError(f"dflash_config has conv_kernel_size {taps}; a block has only {block} rows.")
    rank, top_k = flash.pair("selector_rank", "selector_top_k")
    if top_k > vocabulary:
        raise ValueError(f"dflash_config has selector_top_k {top_k}; there are only {vocabulary} tokens.")
    multiplier = flash.number("output_multiplier", 1.0)
    if multiplier <= 0:
        raise flash.refusal("output_multiplier", multiplier, "positive")
    cap = flash.number("final_logit_softcapping", 0.0)
    if cap < 0:
        raise flash.refusal("final_logit_softcapping", cap, "positive, or 0 for no cap")
    target_layers = either.whole("num_target_layers", 1)
    ids = _layer_ids(either)
    if ids is not None and target_layers is not None:
        check_range(ids, target_layers)
    mask = either.value("mask_token")
    mask = DEFAULT_MASK_TOKEN if mask is None else mask
    if not isinstance(mask, str) or not mask:
        raise either.refusal("mask_token", mask, "a text of at least one character")
    mask_id = either.whole("mask_token_id", 0)
    if mask_id is not None and mask_id >= vocabulary:
        raise either.refusal("mask_token_id", mask_id, f"below vocab_size {vocabulary}")

    return DraftConfig(
        hidden_size=hidden,
        intermediate_size=text.required("intermediate_size"),
        num_layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=vocabulary,
        eps=text.number("rms_norm_eps", 1e-6),
        rope=rope,
        sights=_sights(text, layers),
        num_target_layers=target_layers,
        block_size=block,
        target_layer_ids=ids,
        mask_token=mask,
        mask_token_id=mask_id,
        conv_kernel_size=taps,
        conv_group_size=group,
        selector_rank=rank,
        selector_top_k=top_k,
        output_multiplier=multiplier,
        softcap=cap or None,
        unsupported=(*rope_rest, *_unsupported(either, text)),
    )


def spaced_layer_ids(target_layers: int, count: int) -> tuple[int, ...]:
    """`count` layer ids evenly spaced from 1 to `target_layers - 3`, both included; the middle one for one id.

    Raises:
        ValueError: the target has fewer than 4 layers and more than one id is asked for.
    """
    if count == 1:
        return (target_layers // 2,)
    if target_layers < 4:
        raise ValueError(
            f"The target has {target_layers} layers; evenly spaced features need 4. Name target_layer_ids."
        )
    return tuple(round(1 + i * (target_layers - 4) / (count - 1)) for i in range(count))


def check_range(ids: Sequence[int], target_layers: int) -> None:
    """Raise `ValueError` unless every id is a layer of a target with `target_layers` layers."""
    outside = [i for i in ids if not 0 <= i < target_layers]
    if outside:
        raise ValueError(
            f"target_layer_ids names layer {outside[0]}; the target has layers 0 to {target_layers - 1}."
        )


def _layer_ids(fields: Fields) -> tuple[int, ...] | None:
    found = fields.value("target_layer_ids")
    if found is None:
        return None
    good = isinstance(found, list | tuple) and all(type(i) is int and i >= 0 for i in found)
    if not good or not found or list(found) != sorted(set(found)):
        raise fields.refusal("target_layer_ids", found, "a list of layer numbers that rise, at least one")
    return tuple(found)


def _sights(text: Fields, layers: int) -> tuple[LayerSight, ...]:
    kinds = text.value("layer_types")
    explicit = text.flag("is_causal")
    if kinds is None:
        kinds = ["full_attention"] * layers
    if not isinstance(kinds, list | tuple) or len(kinds) != layers:
        raise text.refusal("layer_types", kinds, f"a list with one entry for each of {layers} layers")
    sights: list[LayerSight] = []
    for index, kind in enumerate(kinds):
        if kind not in ("full_attention", "sliding_attention"):
            raise text.refusal(f"layer_types[{index}]", kind, "full_attention or sliding_attention")
        sliding = kind == "sliding_attention"
        causal = sliding if explicit is None else explicit
        sights.append(LayerSight(text.required("sliding_window") if sliding else None, causal))
    return tuple(sights)


def _unsupported(either: Fields, text: Fields) -> tuple[str, ...]:
    names = ["projector_type", "attention_sink_bias", "attention_value_scale", "quantization_config"]
    found = [name for name in names if either.value(name)]
    found += [name for name in ("attention_bias", "use_gemma_norm") if text.value(name)]
    activation = text.value("hidden_act") or "silu"
    return tuple(found if activation == "silu" else [*found, f"hidden_act {activation}"])
