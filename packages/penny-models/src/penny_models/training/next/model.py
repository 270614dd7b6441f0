"""``tiny-next`` in training: transformers' Flash-Next classes and the MTP module."""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import Qwen4ExpConfig, Qwen4ExpForConditionalGeneration
from transformers.models.qwen4_exp import modeling_qwen4_exp as family

from penny_models.training.base import DraftingModel, Rotary, rows_of
from penny_models.training.gdn import with_state
from penny_models.training.next.attention import attend, project
from penny_models.training.next.config import model_config
from penny_models.training.next.experts import all_experts, balance_loss
from penny_models.training.next.indexer import block_scores, indexer_loss, selected_tokens, within_budget
from penny_models.training.next.mtp import NextTokenPredictor, run_layer


@dataclass
class Pass:
    """What a pass over a sequence left beside its streams."""

    router: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    """Each layer's router logits [tokens, E] and chosen experts [tokens, K]."""
    indexer: list[Tensor] = field(default_factory=list)
    """Each QSA layer's divergence from dense attention, if it was asked for."""


class TinyNext(DraftingModel):
    """The checkpoint's modules; its features are the four residual streams before they are mixed."""

    def __init__(self) -> None:
        super().__init__()
        config = Qwen4ExpConfig(**model_config())
        self.base = Qwen4ExpForConditionalGeneration._from_config(
            config, attn_implementation="sdpa", dtype=torch.float32
        )
        self.mtp = NextTokenPredictor(self.base.config.text_config)
        for layer in self.text.layers:
            if layer.ple is not None:
                table = layer.ple.ple_embedding.ngram_embedding
                table.forward = partial(rows_of, table)
        self.sparse = False
        """Let the indexers select, which changes nothing up to their budget; without it attention is dense."""
        initialise(self)

    def features(self, tokens: Tensor, record: Pass | None = None) -> Tensor:
        """Return the residual streams [B, T, 4H] of token ids [B, T] after the last layer.

        A ``record`` collects routing and, when ``sparse``, the indexers' divergences.
        """
        x = self.embed(tokens)
        rotary = self.rotary(x, 0, tokens.shape[1])
        streams = x.repeat(1, 1, self.text.config.hc_count)
        for layer in self.text.layers:
            if layer.ple is not None:
                streams = streams + layer.ple(streams, tokens, None)
            if layer.layer_type == "linear_attention":
                mixer: Any = partial(layer.linear_attn, cache_params=None, attention_mask=None)
            else:
                mixer = partial(self._attention, layer.self_attn, rotary, record, None)
            streams = run_layer(layer, streams, mixer, record.router if record else None)
        return streams

    def hidden(self, features: Tensor) -> Tensor:
        """Return the mixed streams [B, T, H]."""
        return self.text.hyper_connection_mixer(features)  # type: ignore[no-any-return]

    def new_past(self) -> list[Rotary]:
        """Return an empty list of the MTP layer's keys and values."""
        return []

    def draft_step(
        self, embedded: Tensor, features: Tensor, rotary: Rotary, mask: Tensor | None, past: Any, record: Any
    ) -> tuple[Tensor, Tensor]:
        """Run the MTP module; return its mixed streams, and its streams. Only the first step can be sparse."""
        layer = self.mtp.layers[0].self_attn
        if mask is None and self.sparse:
            mixer: Any = partial(self._attention, layer, rotary, record, past)
        else:
            mixer = partial(attend, layer, rotary=rotary, mask=mask, past=past)
        return self.mtp(embedded, features, mixer, record.router if record else None)  # type: ignore[no-any-return]

    def new_record(self) -> Pass:
        """Return a record of the routing."""
        return Pass()

    def extra_losses(self, record: Pass) -> dict[str, Tensor]:
        """Return the routers' balance loss, the mean over layers and draft steps."""
        return {"balance": torch.stack([balance_loss(*row) for row in record.router]).mean()}

    def _attention(self, layer: Any, rotary: Rotary, record: Pass | None, past: Any, x: Tensor) -> Tensor:
        if not self.sparse:
            return attend(layer, x, rotary, past=past)
        indexer = layer.indexer
        scores = block_scores(indexer, x.detach(), rotary)
        if record is not None:
            query, key, _, _ = project(layer, x, rotary)
            record.indexer.append(indexer_loss(scores, query, key, layer.scaling, indexer.compress_ratio))
        mask = selected_tokens(scores, x.shape[1], indexer.compress_ratio, indexer.block_topk)
        return attend(layer, x, rotary, mask, past)


def use_training_kernels() -> None:
    """Let transformers' Flash-Next layers run this package's training forms, in this process."""
    family.torch_chunk_gated_delta_rule = with_state(family.torch_chunk_gated_delta_rule)
    family.Qwen4ExpTextExperts.forward = all_experts  # type: ignore[method-assign, assignment]
    family.Qwen4ExpTextQSAIndexer.forward = within_budget(family.Qwen4ExpTextQSAIndexer.forward)  # type: ignore[method-assign]


_ZERO = (
    "o_proj.weight",
    "out_proj.weight",
    "down_proj.weight",
    "experts.down_proj",
    "block_inject_weight.weight",
    "ple.value_proj.weight",
    "ple.conv1d.weight",
)
"""Ends of names that start at zero: every layer adds nothing at first, and what it adds goes to all streams alike."""


@torch.no_grad()
def initialise(model: TinyNext) -> None:
    """Set the starting weights; the seed is the caller's. The decays start slow, as ``dense.model`` says."""
    for name, parameter in model.named_parameters():
        if name.endswith(_ZERO):
            parameter.zero_()
        elif name.endswith("conv1d.weight"):
            parameter.uniform_(-0.5, 0.5)
        elif name.endswith("A_log"):
            parameter.uniform_(1.0, 16.0).log_()
        elif name.endswith("dt_bias"):
            steps = torch.empty_like(parameter).uniform_(math.log(1e-3), math.log(1e-1)).exp()
            parameter.copy_(steps + torch.log(-torch.expm1(-steps)))
        elif "embed_tokens" in name or "ngram_embedding" in name:
            parameter.normal_(std=0.1)
        elif name.endswith("mlp.gate.weight"):
            parameter.normal_(std=0.02)
        elif parameter.ndim >= 2:
            parameter.normal_(std=parameter.shape[-1] ** -0.5 * 0.5)
