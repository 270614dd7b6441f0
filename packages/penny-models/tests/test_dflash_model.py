"""The DFlash2 draft of ``tiny-27b``: its mathematics against plain loops and SGLang's own modules."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_draft import SMALL, filled, normal
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoConfig
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding, apply_rotary_pos_emb

from penny_models import tiny
from penny_models.training.dflash.attention import rotary_table, rotate
from penny_models.training.dflash.config import draft_config
from penny_models.training.dflash.convolution import GroupedConvolution, convolve
from penny_models.training.dflash.mask import block_mask
from penny_models.training.dflash.model import DraftModel
from penny_models.training.dflash.norm import RMSNorm
from penny_models.training.dflash.selector import CandidateSelector
from penny_models.training.processors import Json
from penny_models.training.shards import TokenStream

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def config() -> Json:
    return draft_config(json.loads((tiny.path("tiny-27b") / "config.json").read_text()))


@pytest.fixture(scope="module")
def stock() -> Iterator[Any]:
    """SGLang's own draft module, its compiled functions run as they are written."""
    module = pytest.importorskip("sglang.srt.models.dflash")
    torch.compiler.set_stance("force_eager")
    yield module
    torch.compiler.set_stance("default")


# --- the mathematics against plain loops and SGLang's modules


def rms(x: Tensor, weight: Tensor) -> Tensor:
    return x / math.sqrt(float((x * x).mean()) + 1e-6) * weight


def turned(x: Tensor, position: int) -> Tensor:
    half = len(x) // 2
    out = x.clone()
    for i in range(half):
        angle = position * SMALL.rope_theta ** (-2 * i / len(x))
        out[i] = x[i] * math.cos(angle) - x[i + half] * math.sin(angle)
        out[i + half] = x[i + half] * math.cos(angle) + x[i] * math.sin(angle)
    return out


def mixed(rows: list[Tensor], base: Tensor, deltas: list[Tensor]) -> list[Tensor]:
    """The convolution, channel by channel: out[i][c] = sum over t of (base[t][c] + delta[i][t][group]) rows[i-t][c]."""
    out = [torch.zeros_like(row) for row in rows]
    for i in range(len(rows)):
        for t in range(min(i + 1, base.shape[0])):
            for c in range(base.shape[1]):
                out[i][c] += (base[t, c] + deltas[i][t, c // SMALL.conv_group_size]) * rows[i - t][c]
    return out


def plain_block(w: dict[str, Tensor], features: Tensor, embedded: Tensor, anchor: int) -> Tensor:
    """One block by loops, in float64, from the page of the reference: [block, H] of features [T, K * H]."""
    heads, kv_heads, width = SMALL.heads, SMALL.kv_heads, SMALL.head_dim
    context = [rms(w["fc.weight"] @ row, w["hidden_norm.weight"]) for row in features[:anchor]]
    stream = list(embedded)
    size = len(stream)
    for index, kind in enumerate(SMALL.layer_types):
        p = {name.removeprefix(f"layers.{index}."): value for name, value in w.items()}

        def kernels(
            rows: list[Tensor], name: str, p: dict[str, Tensor] = p
        ) -> tuple[list[Tensor], list[Tensor]]:
            taps, groups = SMALL.conv_kernel_size, SMALL.hidden_size // SMALL.conv_group_size
            made = [(p[f"{name}.kernel_projection.weight"] @ row).view(2, taps, groups) for row in rows]
            return [one[0] for one in made], [one[1] for one in made]

        rows = [rms(row, p["input_layernorm.weight"]) for row in stream]
        before, after = kernels(rows, "attention_conv")
        rows = mixed(rows, p["attention_conv.base_kernel"][0], before)
        seen: list[Tensor] = []
        for i in range(size):
            row_out = torch.zeros(heads * width, dtype=torch.float64)
            for h in range(heads):
                shared = slice((h // (heads // kv_heads)) * width, (h // (heads // kv_heads) + 1) * width)
                own = slice(h * width, (h + 1) * width)
                query = turned(
                    rms((p["self_attn.q_proj.weight"] @ rows[i])[own], p["self_attn.q_norm.weight"]),
                    anchor + i,
                )
                weights, values = [], []
                for position in range(anchor + size):
                    inside = position >= anchor
                    if kind == "sliding_attention" and not 0 <= anchor + i - position < SMALL.sliding_window:
                        continue
                    source = rows[position - anchor] if inside else context[position]
                    key = rms((p["self_attn.k_proj.weight"] @ source)[shared], p["self_attn.k_norm.weight"])
                    weights.append(float(query @ turned(key, position)) / math.sqrt(width))
                    values.append((p["self_attn.v_proj.weight"] @ source)[shared])
                parts = torch.softmax(torch.tensor(weights, dtype=torch.float64), 0)
                row_out[own] = sum(part * value for part, value in zip(parts, values, strict=True))
            seen.append(p["self_attn.o_proj.weight"] @ row_out)
        seen = mixed(seen, p["attention_conv.base_kernel"][1], after)
        stream = [a + b for a, b in zip(stream, seen, strict=True)]

        rows = [rms(row, p["post_attention_layernorm.weight"]) for row in stream]
        before, after = kernels(rows, "mlp_conv")
        rows = mixed(rows, p["mlp_conv.base_kernel"][0], before)
        inner = [
            p["mlp.down_proj.weight"]
            @ (F.silu(p["mlp.gate_proj.weight"] @ r) * (p["mlp.up_proj.weight"] @ r))
            for r in rows
        ]
        inner = mixed(inner, p["mlp_conv.base_kernel"][1], after)
        stream = [a + b for a, b in zip(stream, inner, strict=True)]
    return torch.stack([rms(row, w["norm.weight"]) for row in stream])


def test_a_block_equals_plain_loops() -> None:
    draft = filled(DraftModel(SMALL), 1).double()
    features, embedded = normal(2, 12, 32).double(), normal(2, 3, 4, 16, seed=1).double()
    anchors = torch.tensor([[9, 2, 0], [1, 8, 6]])
    weights = {name: value.detach() for name, value in draft.state_dict().items()}
    found = draft(features, embedded, anchors).detach()
    for row in range(2):
        for block in range(3):
            wanted = plain_block(weights, features[row], embedded[row, block], int(anchors[row, block]))
            # Norms and rotary angles are float32 in the module.
            torch.testing.assert_close(found[row, block], wanted, rtol=1e-4, atol=1e-4)


def test_logits_are_multiplied_and_capped() -> None:
    draft = DraftModel(SMALL)
    hidden, head = normal(3, 16), normal(40, 16, seed=1)
    raw = hidden @ head.T
    torch.testing.assert_close(draft.unary_logits(hidden, head), 4.0 * torch.tanh(raw * 1.5 / 4.0))


def test_the_mask_of_a_sliding_and_of_a_full_layer() -> None:
    anchors = torch.tensor([[1, 3]])
    sliding = block_mask(anchors, 4, 2, window=3)[0, 0].int().tolist()
    # Keys: tokens 0 to 3, then rows at positions 1, 2 and rows at positions 3, 4.
    assert sliding == [
        [1, 0, 0, 0, 1, 0, 0, 0],
        [1, 0, 0, 0, 1, 1, 0, 0],
        [0, 1, 1, 0, 0, 0, 1, 0],
        [0, 0, 1, 0, 0, 0, 1, 1],
    ]
    full = block_mask(anchors, 4, 2, window=None)[0, 0].int().tolist()
    assert full == [
        [1, 0, 0, 0, 1, 1, 0, 0],
        [1, 0, 0, 0, 1, 1, 0, 0],
        [1, 1, 1, 0, 0, 0, 1, 1],
        [1, 1, 1, 0, 0, 0, 1, 1],
    ]


def test_the_rotary_table_equals_transformers() -> None:
    config = AutoConfig.for_model(
        "qwen3", head_dim=128, rope_parameters={"rope_type": "default", "rope_theta": 1e7}
    )
    positions = torch.tensor([[0, 1, 17, 2047]])
    query = normal(1, 2, 4, 128)
    cos, sin = Qwen3RotaryEmbedding(config)(query, positions)
    wanted, _ = apply_rotary_pos_emb(query, query, cos, sin)
    torch.testing.assert_close(rotate(query, rotary_table(positions, 128, 1e7)), wanted, rtol=1e-4, atol=1e-4)


def test_the_convolution_equals_sglangs(stock: Any) -> None:
    ours, theirs = filled(GroupedConvolution(32, 3, 8), 2), stock.DFlashGroupedConv(32, 8, 3, 8)
    theirs.load_state_dict(ours.state_dict())
    rows, out = normal(5, 8, 32), normal(5, 8, 32, seed=1)
    found, kernel = ours.prepare(rows)
    wanted, their_kernel = theirs.prepare(rows.flatten(0, 1))
    torch.testing.assert_close(found.flatten(0, 1), wanted)
    torch.testing.assert_close(
        ours.finish(out, kernel).flatten(0, 1), theirs.finish(out.flatten(0, 1), their_kernel)
    )


def test_a_new_convolution_is_the_identity() -> None:
    conv = GroupedConvolution(16, 2, 4)
    rows = normal(3, 8, 16)
    assert torch.equal(convolve(rows, conv.base_kernel[0], torch.zeros(3, 8, 2, 4)), rows)


def test_the_norm_equals_sglangs(stock: Any) -> None:
    ours, theirs = filled(RMSNorm(32, 1e-6), 3), stock.RMSNorm(32, eps=1e-6)
    theirs.weight.data.copy_(ours.weight.data)
    x = normal(4, 32)
    torch.testing.assert_close(ours(x), theirs.forward_native(x))


@pytest.mark.parametrize("greedy", [True, False])
def test_the_selectors_walk_equals_sglangs(stock: Any, greedy: bool) -> None:
    ours = filled(CandidateSelector(32, 50, 4), 4)
    theirs = stock.CandidateSelector(hidden_size=32, vocab_size=50, state_rank=4, top_k=5)
    theirs.load_state_dict(ours.state_dict())
    hidden, anchors = normal(64, 7, 32), torch.arange(64) % 50
    unary, candidates = normal(64, 7, 50, seed=1).topk(5)
    uniforms = torch.rand(64, 7, generator=torch.Generator().manual_seed(2))
    scores = theirs.build_lattice(
        candidate_ids=candidates, unary_logits=unary, hidden_states=hidden, anchor_token_ids=anchors
    )
    wanted, wanted_q = theirs.sample_path(
        candidate_ids=candidates,
        scores=scores,
        uniforms=uniforms,
        temperatures=torch.ones(64),
        greedy_mask=torch.full((64,), greedy),
    )
    tokens, drawn = ours.walk(candidates, unary, hidden, anchors, None if greedy else uniforms)
    assert torch.equal(tokens, wanted)
    at = (candidates == wanted.unsqueeze(-1)).float()
    torch.testing.assert_close(drawn, (wanted_q * at).sum(-1))
    if greedy:
        assert not torch.equal(tokens, candidates[..., 0]), "the tables should overrule some unary choice"


# --- configuration


def test_sglang_reads_the_configuration(stock: Any, config: Json, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    loaded = AutoConfig.from_pretrained(tmp_path)
    found = stock.parse_dflash_draft_config(draft_hf_config=loaded)
    assert (found.num_hidden_layers, found.num_target_layers, found.block_size) == (4, 8, 8)
    assert (found.conv_kernel_size, found.conv_group_size) == (2, 16)
    assert (found.selector_rank, found.selector_top_k) == (64, 8)
    assert found.mask_token_id == 4089
    ids = found.resolve_target_layer_ids(target_num_layers=8)
    assert ids == sorted(set(ids))
    assert ids[-1] < 7, "SGLang captures a hidden state when the next layer reads it"
    # A window of 256 tokens counts the row itself; SGLang counts the tokens to its left.
    attention = [stock._get_dflash_layer_attention_params(loaded, layer) for layer in range(4)]
    kinds = stock.AttentionType
    assert attention == [(255, kinds.DECODER)] * 4
    assert stock.get_rope_config(loaded)[0] == 10_000_000


def test_sglang_captures_before_the_layer_after_a_feature(stock: Any) -> None:
    from sglang.srt.models.qwen3_5 import Qwen3_5ForConditionalGeneration

    class Probe:
        class pp_group:  # noqa: N801
            is_last_rank = True

        class model:  # noqa: N801
            @staticmethod
            def set_dflash_layers_to_capture(layers: list[int]) -> None:
                captured.extend(layers)

    captured: list[int] = []
    Qwen3_5ForConditionalGeneration.set_dflash_layers_to_capture(Probe(), [1, 3, 5, 6])
    assert captured == [2, 4, 6, 7]


def test_the_mask_token_is_in_no_text(config: Json, own_streams: dict[str, TokenStream]) -> None:
    mask = config["dflash_config"]["mask_token_id"]
    tokenizer = Tokenizer.from_file(str(tiny.path("tiny-27b") / "tokenizer.json"))
    assert tokenizer.id_to_token(mask) == config["dflash_config"]["mask_token"]
    assert all(mask not in stream.tokens for stream in own_streams.values())
    template = json.loads((tiny.path("tiny-27b") / "tokenizer_config.json").read_text()).get(
        "chat_template", ""
    )
    assert config["dflash_config"]["mask_token"] not in template
