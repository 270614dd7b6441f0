"""The draft as a differentiable module; its parameters have the names of a DFlash2 checkpoint."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from penny_models.training.dflash.attention import BlockAttention, Rotary, rotary_table
from penny_models.training.dflash.config import DraftShape
from penny_models.training.dflash.convolution import GroupedConvolution
from penny_models.training.dflash.mask import block_mask, row_positions
from penny_models.training.dflash.norm import RMSNorm
from penny_models.training.dflash.selector import CandidateSelector


class GatedMLP(nn.Module):
    """``down(silu(gate(x)) * up(x))``."""

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class DraftLayer(nn.Module):
    """Attention and MLP, each with a norm before it and a convolution around it."""

    def __init__(self, shape: DraftShape) -> None:
        super().__init__()
        conv = (shape.hidden_size, shape.conv_kernel_size, shape.conv_group_size)
        self.block_size = shape.block_size
        self.input_layernorm = RMSNorm(shape.hidden_size, shape.eps)
        self.self_attn = BlockAttention(shape)
        self.post_attention_layernorm = RMSNorm(shape.hidden_size, shape.eps)
        self.mlp = GatedMLP(shape.hidden_size, shape.intermediate_size)
        self.attention_conv = GroupedConvolution(*conv)
        self.mlp_conv = GroupedConvolution(*conv)

    def forward(
        self, x: Tensor, context: Tensor, row_rotary: Rotary, context_rotary: Rotary, mask: Tensor
    ) -> Tensor:
        """Run blocks ``x`` [B, N, block, H] over ``context`` [B, T, H]."""
        rows, kernel = self.attention_conv.prepare(self.input_layernorm(x))
        seen = self.self_attn(rows.flatten(1, 2), context, row_rotary, context_rotary, mask)
        x = x + self.attention_conv.finish(seen.view_as(x), kernel)
        rows, kernel = self.mlp_conv.prepare(self.post_attention_layernorm(x))
        return x + self.mlp_conv.finish(self.mlp(rows), kernel)


class DraftModel(nn.Module):
    """Proposes blocks from a target's hidden states, with the target's embedding and head."""

    def __init__(self, shape: DraftShape) -> None:
        super().__init__()
        self.shape = shape
        size = shape.hidden_size
        self.fc = nn.Linear(len(shape.target_layer_ids) * size, size, bias=False)
        self.hidden_norm = RMSNorm(size, shape.eps)
        self.layers = nn.ModuleList([DraftLayer(shape) for _ in shape.layer_types])
        self.norm = RMSNorm(size, shape.eps)
        self.candidate_selector = CandidateSelector(size, shape.vocab_size, shape.selector_rank)

    def forward(self, features: Tensor, embedded: Tensor, anchors: Tensor) -> Tensor:
        """Return the final normalised hidden states [B, N, block, H] of blocks.

        Args:
            features: [B, T, K * H], the target's hidden states after its ``target_layer_ids``, side by side.
            embedded: [B, N, block, H], the target's embeddings of the anchor and of the mask token.
            anchors: [B, N], the anchors' positions; a block sees the features before its anchor.
        """
        shape = self.shape
        length = features.shape[1]
        context = self.hidden_norm(self.fc(features))
        positions = row_positions(anchors, shape.block_size).flatten(1)
        rows = rotary_table(positions, shape.head_dim, shape.rope_theta)
        steps = torch.arange(length, device=features.device).expand(len(features), -1)
        tokens = rotary_table(steps, shape.head_dim, shape.rope_theta)
        windows = {"full_attention": None, "sliding_attention": shape.sliding_window}
        masks = {
            kind: block_mask(anchors, length, shape.block_size, windows[kind])
            for kind in dict.fromkeys(shape.layer_types)
        }
        x = embedded
        for layer, kind in zip(self.layers, shape.layer_types, strict=True):
            x = layer(x, context, rows, tokens, masks[kind])
        hidden: Tensor = self.norm(x)
        return hidden

    def unary_logits(self, hidden: Tensor, head: Tensor) -> Tensor:
        """Return float32 logits [..., vocab] of ``hidden`` [..., H] through the target's head [vocab, H]."""
        logits = F.linear(hidden, head).float() * self.shape.output_multiplier
        cap = self.shape.softcap
        return logits if cap is None else cap * torch.tanh(logits / cap)


def block_ids(anchors: Tensor, shape: DraftShape) -> Tensor:
    """Return the token ids [..., block] that a block starts from: its anchor's [...], then the mask token."""
    return F.pad(anchors.unsqueeze(-1), (0, shape.block_size - 1), value=shape.mask_token_id)


@torch.no_grad()
def initialise(draft: DraftModel, final_norm: Tensor) -> None:
    """Set the starting weights; the seed is the caller's.

    Output projections, kernels' changes and the successor table start at zero, so that every layer starts as
    the identity and no step between candidates is preferred. ``final_norm`` [H] is the weight by which the
    target multiplies its normalised hidden states before the head that both share.
    """
    for name, parameter in draft.named_parameters():
        if name.endswith(
            ("o_proj.weight", "down_proj.weight", "kernel_projection.weight", "successor_codebook")
        ):
            parameter.zero_()
        elif name.endswith("predecessor_codebook"):
            parameter.normal_()
        elif parameter.ndim == 2:
            parameter.normal_(std=parameter.shape[1] ** -0.5 * 0.5)
    draft.norm.weight.copy_(final_norm)
