"""Counted pre-tokens against encoding each whole document with the same tokenizer."""

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from penny_spec.frspec import Vocabulary, load_vocabulary
from penny_spec.frspec.counting import TokenCounter

SHIPPED = (
    Path(__file__).parents[2]
    / "penny-models"
    / "src"
    / "penny_models"
    / "tiny"
    / "tiny-27b"
    / "tokenizer.json"
)

DOCUMENTS = [
    "Plain text, twice. Plain text, twice.",
    "def f(x):\n    return x  # eight   spaces\n\n\n\tif x:\r\n\r\n",
    "<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nIt's  ",
    "  <|im_end|>   <|im_end|><|endoftext|>",
    "<|im_start| no tag, <|im_end|",
    "cafe\u0301 = caf\u00e9, \u1e9b\u0323, \ufb01, \u0438\u0306",  # NFC changes some of them
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947 "
    "\U0001f469\u200d\U0001f4bb 12345 3.14",
    "x" * 3000,
    "\ufeffmark\u00a0space\u2028line",
]


def small_bpe(folder: Path) -> Path:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(DOCUMENTS, trainer)
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    tokenizer.add_tokens(
        [AddedToken("</think>", normalized=False), AddedToken("</think>\n", normalized=False)]
    )
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture(params=["shipped", "small"])
def vocabulary(request: pytest.FixtureRequest, tmp_path: Path) -> Vocabulary:
    if request.param == "small":
        return load_vocabulary(small_bpe(tmp_path))
    if not SHIPPED.exists():
        pytest.skip("the Qwen tokenizer of penny-models is not beside this package")
    return load_vocabulary(SHIPPED)


def whole(tokenizer: Tokenizer, documents: list[str]) -> dict[int, int]:
    return dict(
        Counter(i for text in documents for i in tokenizer.encode(text, add_special_tokens=False).ids)
    )


def counted(vocabulary: Vocabulary, documents: list[str], pieces: int = 1 << 20) -> dict[int, int]:
    counter: TokenCounter[str] = TokenCounter(vocabulary, pieces)
    for text in documents:
        counter.add("all", text)
    counts = counter.counts()["all"]
    return {int(token): int(counts[token]) for token in counts.nonzero()[0]}


def test_counts_equal_encoding_whole_documents(vocabulary: Vocabulary) -> None:
    assert TokenCounter[str](vocabulary).by_pieces
    documents = [*DOCUMENTS, Path(__file__).read_text(encoding="utf-8")]
    for document in documents:
        assert counted(vocabulary, [document]) == whole(vocabulary.tokenizer, [document]), document[:40]
    assert counted(vocabulary, documents) == whole(vocabulary.tokenizer, documents)


def test_a_full_table_changes_nothing(vocabulary: Vocabulary) -> None:
    assert counted(vocabulary, DOCUMENTS * 2, pieces=3) == whole(vocabulary.tokenizer, DOCUMENTS * 2)


def test_groups_are_kept_apart(vocabulary: Vocabulary) -> None:
    counter: TokenCounter[int] = TokenCounter(vocabulary)
    for number, text in enumerate(DOCUMENTS):
        counter.add(number % 2, text)
    for group, counts in counter.counts().items():
        expected = whole(vocabulary.tokenizer, DOCUMENTS[group::2])
        assert {int(token): int(counts[token]) for token in counts.nonzero()[0]} == expected


def test_each_unique_pre_token_is_encoded_once(tmp_path: Path) -> None:
    vocabulary = load_vocabulary(small_bpe(tmp_path))
    real, calls = vocabulary.tokenizer, Counter[str]()

    def tokenize(piece: str) -> Any:
        calls[piece] += 1
        return real.model.tokenize(piece)

    spy: Any = SimpleNamespace(
        normalizer=real.normalizer,
        pre_tokenizer=real.pre_tokenizer,
        model=SimpleNamespace(tokenize=tokenize),
        encode=None,
    )
    watched = Vocabulary(spy, vocabulary.definition, vocabulary.sha256, "spy", vocabulary.model_vocab_size)
    watched.__dict__["ids"] = vocabulary.ids
    counter: TokenCounter[str] = TokenCounter(watched)
    for group in ("a", "b", "c"):
        counter.add(group, "one two one two two")
    counts = counter.counts()
    # The first word has no space before it, so the unique pieces are these three.
    assert calls == {"one": 1, "\u0120one": 1, "\u0120two": 1}
    assert counts["c"].sum() == len(real.encode("one two one two two").ids)


def odd_tokenizers() -> list[Tokenizer]:
    start = Tokenizer(
        models.WordLevel({"\u2581a": 0, "b": 1, "a": 2, "[U]": 3, "\u2581b": 4}, unk_token="[U]")
    )
    start.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    start.add_special_tokens(["<s>"])
    strips = Tokenizer(models.WordLevel({"a": 0, "b": 1, "[U]": 2}, unk_token="[U]"))
    strips.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    strips.add_tokens([AddedToken("<m>", lstrip=True, normalized=False)])
    bare = Tokenizer(models.WordLevel({"a b": 0, "[U]": 1}, unk_token="[U]"))
    return [start, strips, bare]


@pytest.mark.parametrize("number", range(3))
def test_a_tokenizer_that_sees_context_has_documents_encoded_whole(number: int, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    odd_tokenizers()[number].save(str(path))
    vocabulary = load_vocabulary(path)
    assert not TokenCounter[str](vocabulary).by_pieces
    documents = ["a b", "b<s>a", "a  <m>b"]
    assert counted(vocabulary, documents) == whole(vocabulary.tokenizer, documents)


def test_truncation_and_padding_of_the_file_are_ignored(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(small_bpe(tmp_path)))
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=50)
    tokenizer.save(str(tmp_path / "short.json"))
    vocabulary = load_vocabulary(tmp_path / "short.json")
    assert len(vocabulary.tokenizer.encode("one two three four five").ids) == sum(
        counted(vocabulary, ["one two three four five"]).values()
    )
    assert sum(counted(vocabulary, ["one two three four five"]).values()) > 2


def test_vocabulary_reads_special_and_added_ids(tmp_path: Path) -> None:
    path = small_bpe(tmp_path)
    added = json.loads(path.read_text(encoding="utf-8"))["added_tokens"]
    vocabulary = load_vocabulary(path)
    assert [vocabulary.tokenizer.id_to_token(i) for i in vocabulary.special_ids] == [
        "<|im_start|>",
        "<|im_end|>",
        "<|endoftext|>",
    ]
    assert len(vocabulary.added_ids) == len(added) == 5
