"""The whole drafter against SGLang's own module, on the trained draft of `tiny-27b`.

SGLang's module runs here on a CPU with the plain form of each of its fused operations; attention, which in a server
is a backend over a paged pool, is a loop over queries written below.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from penny_spec.dflash import Drafter

stock = pytest.importorskip("sglang.srt.models.dflash")
tiny = pytest.importorskip("penny_models.tiny")
transformers = pytest.importorskip("transformers")

FOLDER = tiny.path("tiny-27b-dflash2")
CONTEXT = 300  # longer than the sliding window of 256
TOLERANCE = 1e-4  # float32, on hidden states of up to 6.6; measured: 2.9e-5


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


EMBEDDING, HEAD = normal(4096, 128, seed=1) * 0.05, normal(4096, 128, seed=2) * 0.3
FEATURES = normal(CONTEXT, 512, seed=3)


class Attention:
    """Takes the place of SGLang's RadixAttention in one layer; the context's keys and values are set from outside."""

    def __init__(self, layer: Any) -> None:
        self.layer = layer

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, batch: Any) -> Tensor:
        attention = self.layer.self_attn
        heads, width = attention.num_heads, attention.head_dim
        keys = torch.cat([self.keys, key]).view(-1, attention.num_kv_heads, width)
        values = torch.cat([self.values, value]).view(-1, attention.num_kv_heads, width)
        out = torch.empty(len(query), heads, width)
        for row, rows in enumerate(query.view(-1, heads, width)):
            position = len(self.keys) + row
            first = max(0, position - attention.sliding_window_size)
            for head in range(heads):
                shared = head // (heads // attention.num_kv_heads)
                near = slice(first, position + 1)
                weights = (keys[near, shared] @ rows[head] * attention.scaling).softmax(0)
                out[row, head] = weights @ values[near, shared]
        return out.flatten(1)


@pytest.fixture(scope="module")
def theirs() -> Iterator[Any]:
    from safetensors.torch import load_file
    from sglang.kernels.fused_op import BaseFusedOp
    from sglang.srt import runtime_context
    from sglang.srt.layers.rotary_embedding import base

    torch.compiler.set_stance("force_eager")
    one = {"tp_size": 1, "tp_rank": 0, "attn_tp_size": 1, "attn_tp_rank": 0, "tp_group": None}
    with (
        pytest.MonkeyPatch.context() as patch,
        runtime_context.get_context().override_server_args(device="cpu"),
        runtime_context.get_parallel().override(**one),
    ):
        patch.setattr(base, "_is_cpu", True)
        patch.setattr(stock, "_flashinfer_top_k", None)  # it runs on CUDA only
        model = stock.DFlash2DraftModel(transformers.AutoConfig.from_pretrained(FOLDER))
        for module in model.modules():
            if isinstance(module, BaseFusedOp):
                module._forward_method = module.forward_native
        weights = {
            name: w.float() for file in FOLDER.glob("*.safetensors") for name, w in load_file(file).items()
        }
        model.load_weights(weights.items())
        for layer in model.layers:
            layer.self_attn.attn = torch.nn.Identity()
            layer.self_attn.attn.forward = Attention(layer)
        model.lm_head = SimpleNamespace(weight=HEAD, org_vocab_size=4096, quant_method=None)
        yield model
    torch.compiler.set_stance("default")


@pytest.fixture(scope="module")
def ours() -> Drafter:
    return Drafter.load(FOLDER, EMBEDDING, HEAD)


@torch.no_grad()
def set_context(theirs: Any, features: Tensor) -> None:
    fused = theirs.project_target_hidden(features)
    for layer in theirs.layers:
        attention = layer.self_attn
        key, value = attention.kv_proj_only(fused)
        key = attention.apply_k_rope(torch.arange(len(fused)), attention.apply_k_norm(key))
        attention.attn.forward.keys, attention.attn.forward.values = key, value


@torch.no_grad()
def their_block(theirs: Any, anchor: int, start: int) -> Tensor:
    ids = torch.tensor([anchor] + [4089] * 7)
    positions = torch.arange(start, start + 8)
    out = theirs(ids, positions, None, input_embeds=EMBEDDING[ids])
    return out.hidden_states


@pytest.mark.parametrize("length", [1, 17, CONTEXT])
def test_context_and_block_equal_sglangs(theirs: Any, ours: Drafter, length: int) -> None:
    set_context(theirs, FEATURES[:length])
    context = ours.commit(FEATURES[: length // 2])
    context = ours.commit(FEATURES[length // 2 : length], context)
    assert context.length == length
    for layer, keys, values in zip(theirs.layers, context.keys, context.values, strict=True):
        wanted = layer.self_attn.attn.forward
        torch.testing.assert_close(keys.transpose(0, 1).flatten(1), wanted.keys, rtol=0, atol=TOLERANCE)
        torch.testing.assert_close(values.transpose(0, 1).flatten(1), wanted.values, rtol=0, atol=TOLERANCE)
    torch.testing.assert_close(
        ours.block(context, 77), their_block(theirs, 77, length), rtol=0, atol=TOLERANCE
    )


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_the_proposal_equals_sglangs(theirs: Any, ours: Drafter, temperature: float) -> None:
    set_context(theirs, FEATURES[:40])
    context = ours.commit(FEATURES[:40])
    differ = 0
    for anchor in range(0, 4000, 200):
        uniforms = torch.rand(1, 7, generator=torch.Generator().manual_seed(anchor))
        found = ours.propose(context, anchor, temperature=temperature, uniforms=uniforms)
        with torch.no_grad():
            hidden = their_block(theirs, anchor, 40)[1:]
            ids, unary = theirs.compute_candidates(hidden)
            selector = theirs.candidate_selector
            scores = selector.build_lattice(
                candidate_ids=ids[None],
                unary_logits=unary[None],
                hidden_states=hidden[None],
                anchor_token_ids=torch.tensor([anchor]),
            )
            tokens, q = selector.sample_path(
                candidate_ids=ids[None],
                scores=scores,
                uniforms=uniforms,
                temperatures=torch.tensor([max(temperature, 1e-5)]),
                greedy_mask=torch.tensor([temperature == 0.0]),
            )
        assert torch.equal(found.candidates, ids[None])
        assert torch.equal(found.tokens, tokens)
        torch.testing.assert_close(found.probabilities.float(), q, rtol=0, atol=1e-4)
        differ += int((tokens != ids[None, :, 0]).sum())
    assert differ > 0, "the selector should overrule some first candidate, or this test compares little"
