"""The shipped tokenizer: lossless, 4096 ids, the family's word split and special tokens."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from penny_models import tiny

# In the order of the family, whose ids are the last ones of the vocabulary.
CONTROL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
MARKERS = [
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
]


@pytest.fixture(scope="module")
def fast() -> Tokenizer:
    return Tokenizer.from_file(str(tiny.path("tiny-27b") / "tokenizer.json"))


@pytest.fixture(scope="module")
def loaded() -> Any:
    return AutoTokenizer.from_pretrained(tiny.path("tiny-27b"))


TEXT = st.one_of(
    st.text(),
    st.text(alphabet=" \t\n\r\v\f\x00\x1f\x7f\x85\u00a0\u2028\u3000\ufeff\u200b", min_size=1),
    st.binary().map(lambda data: data.decode("latin-1")),
    st.binary().map(lambda data: data.decode("utf-8", errors="replace")),
    st.text(alphabet="0123456789 .,'abXYZé한😀\u0301", min_size=1),
)


@settings(max_examples=400, deadline=None)
@given(text=TEXT)
def test_round_trip(fast: Tokenizer, text: str) -> None:
    ids = fast.encode(text, add_special_tokens=False).ids
    assert fast.decode(ids, skip_special_tokens=False) == unicodedata.normalize("NFC", text)
    assert all(0 <= token < 4096 for token in ids)


@settings(max_examples=100, deadline=None)
@given(text=TEXT)
def test_transformers_reads_the_same_tokenizer(fast: Tokenizer, loaded: Any, text: str) -> None:
    ids = fast.encode(text, add_special_tokens=False).ids
    assert loaded(text)["input_ids"] == ids
    assert loaded.decode(ids) == unicodedata.normalize("NFC", text)


def test_every_byte_has_an_id(fast: Tokenizer) -> None:
    text = "".join(chr(code) for code in (*range(0x100), 0x20AC, 0x1F600, 0x10FFFF, 0xE000))
    assert fast.decode(fast.encode(text).ids) == unicodedata.normalize("NFC", text)
    one_character = [token for token in fast.get_vocab() if len(token) == 1]
    assert len(one_character) == 256


def test_4096_ids_without_holes(fast: Tokenizer, loaded: Any) -> None:
    assert sorted(fast.get_vocab().values()) == list(range(4096))
    assert len(loaded) == 4096
    config = json.loads((tiny.path("tiny-27b") / "config.json").read_text())
    assert config["text_config"]["vocab_size"] == 4096


def test_special_tokens_are_the_last_ids_in_order(fast: Tokenizer) -> None:
    names = CONTROL + MARKERS
    assert [fast.token_to_id(name) for name in names] == list(range(4096 - len(names), 4096))


@pytest.mark.parametrize("token", CONTROL + MARKERS)
def test_a_special_token_is_one_id_anywhere(fast: Tokenizer, loaded: Any, token: str) -> None:
    wanted = fast.token_to_id(token)
    assert fast.encode(token).ids == [wanted]
    # Neither letters nor spaces beside it are drawn in, whoever reads the files.
    around = [*fast.encode("x ").ids, wanted, *fast.encode("\n y").ids]
    assert fast.encode(f"x {token}\n y").ids == around
    assert loaded(f"x {token}\n y")["input_ids"] == around


def test_control_tokens_are_skipped_and_markers_stay(loaded: Any) -> None:
    text = "<|im_start|>a<think>b</think><tool_call>c</tool_call><|im_end|><|endoftext|>"
    ids = loaded(text)["input_ids"]
    assert loaded.decode(ids) == text
    shown = "a<think>b</think><tool_call>c</tool_call>"
    assert loaded.decode(ids, skip_special_tokens=True) == shown
    for token in CONTROL:
        assert loaded.decode(loaded(token)["input_ids"], skip_special_tokens=True) == ""
    for token in MARKERS:
        assert loaded.decode(loaded(token)["input_ids"], skip_special_tokens=True) == token


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("year 2026", ["year", " ", "2", "0", "2", "6"]),
        ("x1y22", ["x", "1", "y", "2", "2"]),
        ("\u0661\u0662 ½", ["\u0661", "\u0662", " ", "½"]),
        ("I'm don't we'LL", ["I", "'m", " don", "'t", " we", "'LL"]),
        ("self.name_of(x)", ["self", ".name", "_of", "(x", ")"]),
        ("a  b", ["a", " ", " b"]),
        ("a\n\n  b", ["a", "\n\n", " ", " b"]),
        ("if x:\n    y", ["if", " x", ":\n", "   ", " y"]),
        ("end  ", ["end", "  "]),
        ("a != b", ["a", " !=", " b"]),
        ("cafe\u0301", ["café"]),
        ("हिन्दी", ["हिन्दी"]),
    ],
)
def test_word_split(fast: Tokenizer, text: str, pieces: list[str]) -> None:
    text = fast.normalizer.normalize_str(text)
    assert [text[begin:end] for _, (begin, end) in fast.pre_tokenizer.pre_tokenize_str(text)] == pieces


def test_digits_never_merge(fast: Tokenizer) -> None:
    letters_and_digits = [t for t in fast.get_vocab() if any(c.isdigit() for c in t) and len(t) > 1]
    assert [t for t in letters_and_digits if t.isascii()] == []
    assert len(fast.encode("31415926535").ids) == 11


def test_end_and_pad(loaded: Any, shipped: Path) -> None:
    generation = json.loads((shipped / "generation_config.json").read_text())
    assert loaded.eos_token == "<|im_end|>"
    assert loaded.pad_token == "<|endoftext|>"
    assert loaded.bos_token is None
    ends = loaded.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    assert sorted(generation["eos_token_id"]) == sorted(ends)
    assert generation["pad_token_id"] == ends[1]
