"""Sharded heads (case SD-10), differing vocabularies (case SD-13), and scripts of tokens."""

import sys
import unicodedata

import pytest
import torch

from penny_spec.frspec import InputError, MapError, local_rows, same_vocabulary
from penny_spec.frspec.scripts import NO_LETTERS, PARTIAL, script_of


def rows(ids: list[int], vocab: int, tp: int) -> list[list[int]]:
    return [part.tolist() for part in local_rows(torch.tensor(ids, dtype=torch.int64), vocab, tp)]


def test_sd10() -> None:
    assert rows([1, 5, 6], 8, 2) == [[1], [1, 2]]


def test_edges_of_shards() -> None:
    assert rows([3, 4], 8, 2) == [[3], [0]]
    assert rows([0, 7], 8, 4) == [[0], [], [], [1]]
    assert rows([2, 5], 8, 1) == [[2, 5]]


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_shards_put_together_give_the_rows_of_the_whole_head(tp: int) -> None:
    generator = torch.Generator().manual_seed(20261129)
    head = torch.randn(64, 3, generator=generator)
    ids = torch.randperm(64, generator=generator)[:23].sort().values
    parts = [shard[local] for shard, local in zip(head.chunk(tp), local_rows(ids, 64, tp), strict=True)]
    assert torch.equal(torch.cat(parts), head[ids])


def test_shards_are_those_of_stock() -> None:
    pytest.importorskip("sglang")
    from sglang.srt.layers.vocab_parallel_embedding import vocab_range_from_global_vocab_size

    ids = torch.arange(0, 248_320, 7)
    for rank, local in enumerate(local_rows(ids, 248_320, 4)):
        first, end = vocab_range_from_global_vocab_size(248_320, rank, 4)
        assert torch.equal(local + first, ids[(ids >= first) & (ids < end)])


def test_a_head_that_does_not_divide() -> None:
    with pytest.raises(InputError, match="9 rows does not divide over 2 ranks; pass the padded row count"):
        rows([1], 9, 2)
    with pytest.raises(MapError, match="holds id 8; the head has rows 0 to 7"):
        rows([1, 8], 8, 2)
    with pytest.raises(MapError, match="holds id -1"):
        rows([-1, 3], 8, 2)
    with pytest.raises(MapError, match="do not ascend"):
        rows([5, 1], 8, 2)


def test_sd13() -> None:
    differs = same_vocabulary(["a", "b", "c"], ["a", "c", "b"])
    assert (differs.ok, differs.ok_with_map) == (False, False)
    assert differs.reason.startswith("Id 1 differs: 'b' in the target, 'c' in the draft")
    padded = same_vocabulary(["a", "b", "c"], ["a", "b", "c"], draft_rows=8)
    assert (padded.kind, padded.ok) == ("padding", True)
    shorter = same_vocabulary(["a", "b", "c"], ["a", "b"])
    assert (shorter.kind, shorter.ok, shorter.ok_with_map) == ("shorter", False, True)
    assert "id 2, 'c'" in shorter.reason


def test_other_vocabularies() -> None:
    assert same_vocabulary(["a", "b"], ["a", "b"]).kind == "same"
    assert same_vocabulary(["a", "b", None], ["a", "b"]).kind == "padding"
    assert same_vocabulary(["a", None, "b"], ["a", None, "b"]).kind == "same"
    assert same_vocabulary(["a", None, "b"], ["a", "x", "b"]).kind == "differs"
    longer = same_vocabulary(["a"], ["a", "z"])
    assert (longer.kind, longer.ok, longer.ok_with_map) == ("longer", False, False)


@pytest.mark.parametrize(
    ("text", "script"),
    [
        (" the", "Latin"),
        ("\u4f60\u597d", "Han"),
        ("\u306e", "Hiragana"),
        ("\uff76", "Katakana"),
        ("\uff21", "Latin"),
        ("\ud55c\uad6d", "Hangul"),
        ("\u043f\u0440\u0438", "Cyrillic"),
        ("\u0e44\u0e17\u0e22", "Thai"),
        ("a\u4f60\u597d", "Han"),  # most letters decide
        ("\u4f60a", "Han"),  # between equals the first
        ("123 ;\n", NO_LETTERS),
        ("", NO_LETTERS),
        ("\ufffd", PARTIAL),
        ("a\ufffd", PARTIAL),
    ],
)
def test_script_of(text: str, script: str) -> None:
    assert script_of(text) == script


@pytest.mark.parametrize(
    "script",
    [
        "Latin",
        "Han",
        "Hiragana",
        "Katakana",
        "Hangul",
        "Cyrillic",
        "Greek",
        "Arabic",
        "Hebrew",
        "Devanagari",
        "Bengali",
        "Tamil",
        "Telugu",
        "Thai",
        "Georgian",
        "Armenian",
        "Ethiopic",
        "Khmer",
        "Myanmar",
        "Mongolian",
    ],
)
def test_script_is_the_unicode_property(script: str) -> None:
    regex = pytest.importorskip("regex")
    of_script = regex.compile(rf"\p{{Script={script}}}")
    letters = [
        c for c in map(chr, range(sys.maxunicode)) if unicodedata.category(c)[0] == "L" and of_script.match(c)
    ]
    wrong = [c for c in letters if script_of(c) != script]
    # Ligatures and historic letters whose names start otherwise are few.
    assert len(wrong) <= 0.02 * len(letters), [unicodedata.name(c) for c in wrong[:10]]
