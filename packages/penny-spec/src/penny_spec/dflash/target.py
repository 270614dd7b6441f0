"""Whether a draft fits its target."""

from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer

from penny_spec.dflash.config import DraftConfig
from penny_spec.dflash.fields import Fields


def check_target(
    draft: DraftConfig, target: Mapping[str, Any], *, block_size: int | None = None
) -> tuple[int, ...]:
    """Compare a draft with its target's config.json, and with the block that a server was asked for.

    Args:
        draft: the draft.
        target: the target's config.json, nested (`text_config`) or flat.
        block_size: rows of a block as asked for (SGLang's `--speculative-num-draft-tokens`), None: the draft's.

    Returns:
        The target layers after which hidden states are taken.

    Raises:
        ValueError: hidden size, vocabulary or number of layers differ; a layer id outside the target, or its last
            layer, whose hidden state SGLang cannot take (it takes one when the next layer reads it); a block of
            another size than the trained one (stock SGLang only warns and then drafts with an untrained block).
    """
    whole = Fields("The target's config.json", target)
    nested = whole.mapping("text_config")
    text = whole if nested is None else Fields("The target's text_config", nested)
    hidden, vocabulary = text.required("hidden_size"), text.required("vocab_size")
    layers = text.required("num_hidden_layers")
    if hidden != draft.hidden_size:
        raise ValueError(
            f"The draft has hidden size {draft.hidden_size} and the target {hidden}; they share embedding and "
            "head, so the sizes must be equal. Use the draft that was trained for this target."
        )
    if vocabulary != draft.vocab_size:
        raise ValueError(
            f"The draft knows {draft.vocab_size} tokens and the target {vocabulary}; the ids would mean "
            "different tokens. Use the draft that was trained for this target."
        )
    if draft.num_target_layers not in (None, layers):
        raise ValueError(
            f"The draft was trained for a target of {draft.num_target_layers} layers, this one has {layers}. "
            "Use the draft that was trained for this target."
        )
    ids = draft.resolve_layer_ids(layers)
    if ids[-1] == layers - 1:
        raise ValueError(
            f"target_layer_ids names layer {ids[-1]}, the target's last; hidden states can be taken after "
            f"layers 0 to {layers - 2}."
        )
    if block_size not in (None, draft.block_size):
        raise ValueError(
            f"A block of {block_size} rows was asked for; the draft was trained for {draft.block_size}. Ask for "
            f"{draft.block_size}, or leave it out."
        )
    return ids


def mask_token_id(draft: DraftConfig, tokenizer: Tokenizer) -> int:
    """The id of the draft's mask token, which must agree with the target's tokenizer.

    Raises:
        ValueError: the tokenizer gives the token another id, or the draft names no id and the tokenizer lacks
            the token.
    """
    known = tokenizer.token_to_id(draft.mask_token)
    if draft.mask_token_id is None:
        if known is None:
            raise ValueError(
                f"The tokenizer has no token {draft.mask_token!r} and the draft names no mask_token_id; add "
                "mask_token_id to dflash_config."
            )
        return int(known)
    if known is not None and known != draft.mask_token_id:
        raise ValueError(
            f"dflash_config gives {draft.mask_token!r} the id {draft.mask_token_id}, the tokenizer {known}. Use "
            "the tokenizer of the target that the draft was trained for."
        )
    return draft.mask_token_id
