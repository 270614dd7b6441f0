"""The NEXTN (MTP) module of Flash-Next: transformers has none, SGLang's ``qwen4_exp_mtp.py`` reads ``mtp.*``."""

import copy
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from transformers.models.qwen3_5 import modeling_qwen3_5
from transformers.models.qwen4_exp import modeling_qwen4_exp as family


def run_layer(
    layer: Any,
    streams: Tensor,
    mixer: Callable[[Tensor], Tensor],
    router: list[tuple[Tensor, Tensor]] | None = None,
) -> Tensor:
    """Run one decoder layer on the residual streams [B, T, 4H]; ``mixer`` is its attention or delta net.

    ``router`` collects the router's logits and the experts that it chose.
    """
    x, residual, inject = layer.attn_hyper_connection(streams)
    streams = residual + (mixer(x).unsqueeze(-2) * inject.unsqueeze(-1)).flatten(-2)
    x, residual, inject = layer.mlp_hyper_connection(streams)
    if router is not None:
        logits, _, chosen = layer.mlp.gate(x)
        router.append((logits, chosen))
    return residual + (layer.mlp(x).unsqueeze(-2) * inject.unsqueeze(-1)).flatten(-2)  # type: ignore[no-any-return]


class NextTokenPredictor(nn.Module):
    """One full-attention layer between an input fusion and its own stream mixer.

    The hidden input is the model's four streams before they are mixed, normalised over their whole width.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        config = copy.deepcopy(config)
        full = next(kind for kind in config.layer_types if kind != "linear_attention")
        config.num_hidden_layers, config.layer_types, config.ple_layer_ids = 1, [full], []
        size, eps = config.hidden_size, config.rms_norm_eps
        self.fc_embedding = nn.Linear(size, size, bias=False)
        self.fc_hidden = nn.Linear(size, size, bias=False)
        # Qwen3.5's norm is the family's without groups.
        self.pre_fc_norm_embedding = modeling_qwen3_5.Qwen3_5RMSNorm(size, eps)
        self.pre_fc_norm_hidden = modeling_qwen3_5.Qwen3_5RMSNorm(config.hc_count * size, eps)
        self.layers = nn.ModuleList([family.Qwen4ExpTextDecoderLayer(config, 0)])
        self.hyper_connection_mixer = family.Qwen4ExpTextGatedResidual(config, use_combine=False)
        self.streams = config.hc_count

    def forward(
        self,
        embedded: Tensor,
        streams: Tensor,
        mixer: Callable[[Tensor], Tensor],
        router: list[tuple[Tensor, Tensor]] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Combine the next token's embedding [B, T, H] with the streams [B, T, 4H]; ``mixer`` is the attention.

        Returns the hidden states for the head [B, T, H], and the streams for the next draft step.
        """
        token = self.fc_embedding(self.pre_fc_norm_embedding(embedded))
        hidden = self.fc_hidden(self.pre_fc_norm_hidden(streams).unflatten(-1, (self.streams, -1)))
        out = run_layer(self.layers[0], (token.unsqueeze(-2) + hidden).flatten(-2), mixer, router)
        return self.hyper_connection_mixer(out), out
