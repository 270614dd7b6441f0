"""The whole drafter: against plain loops in float64, against our own training form, and its refusals."""

import json
import math
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from penny_spec.dflash import Drafter, DraftModel, parse_config
from penny_spec.dflash.weights import read_file, read_tensors

Array = np.ndarray[Any, Any]

CONFIG: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 40,
    "rms_norm_eps": 1e-6,
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100.0},
    "dflash_config": {
        "block_size": 4,
        "target_layer_ids": [0, 2],
        "mask_token_id": 39,
        "conv_kernel_size": 3,
        "conv_group_size": 4,
        "selector_rank": 6,
        "selector_top_k": 3,
        "output_multiplier": 1.5,
        "final_logit_softcapping": 4.0,
    },
}


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_model() -> DraftModel:
    """Every parameter is random, so that none hides another."""
    model = DraftModel(parse_config(CONFIG)).double().requires_grad_(False)
    for index, parameter in enumerate(model.parameters()):
        scale = parameter.shape[-1] ** -0.5 if parameter.ndim == 2 else 1.0
        parameter.copy_(normal(*parameter.shape, seed=index) * scale)
    return model


@pytest.fixture
def drafter() -> Drafter:
    return Drafter(random_model(), normal(40, 16, seed=91), normal(40, 16, seed=92))


# ---- against loops


def rms(x: Array, weight: Array) -> Array:
    return x / math.sqrt((x * x).mean() + 1e-6) * weight


def turned(x: Array, position: int) -> Array:
    out = x.copy()
    for i in range(4):
        angle = position * 100.0 ** (-2 * i / 8)
        out[i] = x[i] * math.cos(angle) - x[i + 4] * math.sin(angle)
        out[i + 4] = x[i + 4] * math.cos(angle) + x[i] * math.sin(angle)
    return out


def mixed(rows: list[Array], base: Array, kernels: list[Array]) -> list[Array]:
    """`out[i][c] = sum over t of (base[t][c] + kernels[i][t][c // 4]) * rows[i - t][c]`."""
    return [
        np.array(
            [
                sum((base[t, c] + kernels[i][t, c // 4]) * rows[i - t][c] for t in range(min(i, 2) + 1))
                for c in range(16)
            ]
        )
        for i in range(len(rows))
    ]


def attended(w: dict[str, Array], rows: list[Array], context: list[Array], sliding: bool) -> list[Array]:
    start, out = len(context), []
    sources = [*context, *rows]
    for i in range(len(rows)):
        heads = []
        for h in range(4):
            own, shared = slice(8 * h, 8 * h + 8), slice(8 * (h // 2), 8 * (h // 2) + 8)
            query = turned(
                rms((w["self_attn.q_proj.weight"] @ rows[i])[own], w["self_attn.q_norm.weight"]), start + i
            )
            parts, values = [], []
            for position, source in enumerate(sources):
                if sliding and not 0 <= start + i - position < 5:
                    continue
                key = rms((w["self_attn.k_proj.weight"] @ source)[shared], w["self_attn.k_norm.weight"])
                parts.append(math.exp(query @ turned(key, position) / math.sqrt(8)))
                values.append((w["self_attn.v_proj.weight"] @ source)[shared])
            heads.append(sum(part * value for part, value in zip(parts, values, strict=True)) / sum(parts))
        out.append(w["self_attn.o_proj.weight"] @ np.concatenate(heads))
    return out


def plain_block(w: dict[str, Array], features: Array, embedded: Array) -> Array:
    context = [rms(w["fc.weight"] @ row, w["hidden_norm.weight"]) for row in features]
    stream = list(embedded)
    for index in range(2):
        layer = {name.removeprefix(f"layers.{index}."): value for name, value in w.items()}

        def mlp(rows: list[Array], p: dict[str, Array] = layer) -> list[Array]:
            gates = [p["mlp.gate_proj.weight"] @ row for row in rows]
            return [
                p["mlp.down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * (p["mlp.up_proj.weight"] @ row))
                for gate, row in zip(gates, rows, strict=True)
            ]

        def attention(
            rows: list[Array], p: dict[str, Array] = layer, sliding: bool = index == 0
        ) -> list[Array]:
            return attended(p, rows, context, sliding)

        sublayers = [
            ("input_layernorm", "attention_conv", attention),
            ("post_attention_layernorm", "mlp_conv", mlp),
        ]
        for norm, conv, sublayer in sublayers:
            rows = [rms(row, layer[f"{norm}.weight"]) for row in stream]
            made = [(layer[f"{conv}.kernel_projection.weight"] @ row).reshape(2, 3, 4) for row in rows]
            base = layer[f"{conv}.base_kernel"]
            rows = sublayer(mixed(rows, base[0], [one[0] for one in made]))
            rows = mixed(rows, base[1], [one[1] for one in made])
            stream = [a + b for a, b in zip(stream, rows, strict=True)]
    return np.stack([rms(row, w["norm.weight"]) for row in stream])


@pytest.mark.parametrize("length", [0, 1, 9])
def test_a_block_equals_plain_loops(drafter: Drafter, length: int) -> None:
    features = normal(length, 32, seed=93)
    context = drafter.commit(features)
    weights = {name: value.numpy() for name, value in drafter.model.state_dict().items()}
    embedded = drafter.embedding[[11, 39, 39, 39]].numpy()
    wanted = plain_block(weights, features.numpy(), embedded)
    np.testing.assert_allclose(drafter.block(context, 11).numpy(), wanted, rtol=0, atol=1e-12)


def test_context_committed_in_pieces_is_the_same(drafter: Drafter) -> None:
    features = normal(7, 32, seed=94)
    whole, pieces = drafter.commit(features), drafter.commit(features[:3])
    first = pieces
    for piece in (features[3:4], features[4:4], features[4:]):
        pieces = drafter.commit(piece, pieces)
    assert (first.length, pieces.length, whole.length) == (3, 7, 7), (
        "a context is not changed by what follows it"
    )
    for a, b in zip(whole.keys + whole.values, pieces.keys + pieces.values, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_candidates_are_multiplied_and_capped(drafter: Drafter) -> None:
    hidden = normal(2, 16, seed=95)
    ids, logits = drafter.candidates(hidden)
    raw = (hidden @ drafter.head.T).numpy()
    for row in range(2):
        best = np.argsort(-raw[row])[:3]
        assert ids[row].tolist() == best.tolist()
        np.testing.assert_allclose(logits[row], 4.0 * np.tanh(1.5 * raw[row][best] / 4.0))


def test_a_proposal_is_one_of_the_candidates_in_each_slot(drafter: Drafter) -> None:
    context = drafter.commit(normal(6, 32, seed=96))
    greedy = drafter.propose(context, 5)
    assert (drafter.slots, tuple(greedy.tokens.shape), tuple(greedy.candidates.shape)) == (
        3,
        (1, 3),
        (1, 3, 3),
    )
    ids, unary = drafter.candidates(drafter.block(context, 5)[1:])
    before = 5
    selector = drafter.model.candidate_selector
    for slot in range(3):
        hidden = drafter.block(context, 5)[1 + slot]
        query = selector.predecessor_codebook[before] * (selector.hidden_projection.weight @ hidden)
        scores = [float(unary[slot, c] + query @ selector.successor_codebook[ids[slot, c]]) for c in range(3)]
        before = int(ids[slot, int(np.argmax(scores))])
        assert int(greedy.tokens[0, slot]) == before
    with pytest.raises(ValueError, match="Sampling needs uniforms"):
        drafter.propose(context, 5, temperature=1.0)
    with pytest.raises(ValueError, match="The anchor is 40; token ids are 0 to 39"):
        drafter.propose(context, 40)


def test_the_training_form_computes_the_same(drafter: Drafter) -> None:
    training = pytest.importorskip("penny_models.training.dflash.model")
    shapes = pytest.importorskip("penny_models.training.dflash.config")
    theirs = training.DraftModel(shapes.DraftShape.read(CONFIG)).double()
    theirs.load_state_dict(drafter.model.state_dict())
    features, anchor = normal(9, 32, seed=97), 9
    embedded = drafter.embedding[[11, 39, 39, 39]]
    with torch.no_grad():
        wanted = theirs(features[None], embedded[None, None], torch.tensor([[anchor]]))[0, 0]
    # Norms and rotary angles are float32 in the training form.
    torch.testing.assert_close(drafter.block(drafter.commit(features), 11), wanted, rtol=0, atol=2e-4)


def test_a_draft_without_convolutions() -> None:
    flash = {k: v for k, v in CONFIG["dflash_config"].items() if not k.startswith("conv")}
    plain = DraftModel(parse_config(CONFIG | {"dflash_config": flash})).double().requires_grad_(False)
    full = random_model()
    plain.load_state_dict({k: v for k, v in full.state_dict().items() if "_conv." not in k})
    for layer in full.layers:
        for conv in (layer.attention_conv, layer.mlp_conv):
            conv.base_kernel.zero_()
            conv.base_kernel[:, 0] = 1.0
            conv.kernel_projection.weight.zero_()
    head = normal(40, 16, seed=92)
    one, two = Drafter(plain, head, head), Drafter(full, head, head)
    features = normal(6, 32, seed=98)
    torch.testing.assert_close(one.block(one.commit(features), 3), two.block(two.commit(features), 3))


# ---- checkpoints


def write(path: Path, tensors: dict[str, Tensor]) -> None:
    """A safetensors file by its specification: length of the header, header, data."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().view(torch.uint8).numpy().tobytes()
        kind = {torch.float64: "F64", torch.bfloat16: "BF16", torch.int64: "I64"}[tensor.dtype]
        entry = {
            "dtype": kind,
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        header[name], data = entry, data + raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    write(tmp_path / "model.safetensors", dict(random_model().state_dict()))
    return tmp_path


def load(folder: Path, **options: Any) -> Drafter:
    return Drafter.load(folder, normal(40, 16, seed=91), normal(40, 16, seed=92), **options)


def test_a_folder_gives_the_same_drafter(folder: Path, drafter: Drafter) -> None:
    features = normal(6, 32, seed=96)
    found = load(folder, dtype=torch.float64)
    wanted = drafter.block(drafter.commit(features), 5)
    torch.testing.assert_close(found.block(found.commit(features), 5), wanted, rtol=0, atol=1e-12)
    state = {f"model.{name}": value for name, value in drafter.model.state_dict().items()}
    state["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4, dtype=torch.float64)
    write(folder / "model.safetensors", state)
    assert torch.equal(load(folder, dtype=torch.float64).model.norm.weight, drafter.model.norm.weight), (
        "a prefix and rotary buffers do not matter"
    )


def test_two_files_with_an_index(folder: Path) -> None:
    state = dict(random_model().state_dict())
    names = sorted(state)
    parts = {"a.safetensors": names[:10], "b.safetensors": names[10:]}
    for file, some in parts.items():
        write(folder / file, {name: state[name] for name in some})
    placed = {name: file for file, some in parts.items() for name in some}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": placed}))
    found = read_tensors(folder)
    assert sorted(found) == names
    assert all(torch.equal(found[name], state[name]) for name in names)

    index.write_text(json.dumps({"weight_map": placed | {"extra.weight": "a.safetensors"}}))
    with pytest.raises(ValueError, match=r"names 1 tensors that its files lack, first extra\.weight"):
        read_tensors(folder)
    index.write_text(json.dumps({"weight_map": {"x": "../model.safetensors"}}))
    with pytest.raises(ValueError, match="files must lie in the folder itself"):
        read_tensors(folder)
    index.write_text("{}")
    with pytest.raises(ValueError, match="holds no weight_map"):
        read_tensors(folder)
    index.write_text(json.dumps({"weight_map": {"x": "c.safetensors"}}))
    with pytest.raises(
        FileNotFoundError, match=r"There is no file .*c\.safetensors; copy the whole checkpoint"
    ):
        read_tensors(folder)


def test_the_reader_equals_the_safetensors_library() -> None:
    tiny = pytest.importorskip("penny_models.tiny")
    library = pytest.importorskip("safetensors.torch")
    file = next(tiny.path("tiny-27b-dflash2").glob("*.safetensors"))
    found, wanted = read_file(file), library.load_file(file)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize("keep", [0, 5, 8, 200, -1])
def test_a_file_cut_short_is_refused(folder: Path, keep: int) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"model\.safetensors .*copy the file again"):
        read_file(file)


def test_other_dtypes_and_wrong_sizes_are_refused(folder: Path) -> None:
    file = folder / "model.safetensors"
    write(file, {"norm.weight": torch.ones(16, dtype=torch.int64)})
    with pytest.raises(ValueError, match="holds I64 weights; a draft is read in F64, F32, F16, BF16"):
        read_file(file)
    text = json.dumps({"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(ValueError, match=r"bytes 0 to 8 cannot hold a tensor of shape \[3\]"):
        read_file(file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm.weight": None}, r"lacks 1 of 36 tensors, first norm\.weight\. Copy"),
        (
            {"norm.weight": None, "final_norm.weight": torch.ones(16).double()},
            r"lacks 1 of 36 tensors, first norm\.weight\. It holds final_norm\.weight",
        ),
        ({"extra.weight": torch.ones(1).double()}, r"holds 1 tensors .* first extra\.weight"),
        (
            {"fc.weight": torch.ones(16, 48).double()},
            r"fc\.weight has shape \(16, 48\); .* must be \(16, 32\)",
        ),
    ],
)
def test_wrong_tensors_are_refused(folder: Path, change: dict[str, Tensor | None], message: str) -> None:
    state = dict(random_model().state_dict()) | change
    write(folder / "model.safetensors", {name: value for name, value in state.items() if value is not None})
    with pytest.raises(ValueError, match=message):
        load(folder)


@pytest.mark.parametrize(
    ("flash", "message"),
    [
        ({"projector_type": "domino"}, "has projector_type; this drafter does not compute that"),
        ({"selector_rank": 0, "selector_top_k": 0}, "has no candidate selector"),
        ({"mask_token_id": None}, "names no mask_token_id"),
    ],
)
def test_drafts_that_it_cannot_run_are_refused(folder: Path, flash: dict[str, Any], message: str) -> None:
    config = CONFIG | {"dflash_config": CONFIG["dflash_config"] | flash}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        load(folder)
    if "mask_token_id" in flash:
        assert load(folder, mask_token_id=39).mask_token_id == 39


def test_a_missing_file_and_a_wrong_target(folder: Path, drafter: Drafter) -> None:
    with pytest.raises(TypeError, match="head is float8_e4m3fn: quantised values are no plain matrix"):
        Drafter(drafter.model, drafter.embedding, drafter.head.to(torch.float8_e4m3fn))
    with pytest.raises(ValueError, match=r"embedding has shape \(40, 8\); the draft needs \(40, 16\)"):
        Drafter(drafter.model, drafter.embedding[:, :8], drafter.head)
    with pytest.raises(ValueError, match=r"features has shape \(6, 16\); pass \(tokens, 32\)"):
        drafter.commit(normal(6, 16))
    empty = folder / "empty"
    empty.mkdir()
    shutil.copyfile(folder / "config.json", empty / "config.json")
    with pytest.raises(FileNotFoundError, match=r"There is no file .*model\.safetensors"):
        load(empty)
