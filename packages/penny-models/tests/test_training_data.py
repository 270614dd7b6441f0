"""The data step: licences, corpus, split, windows, n-gram baselines and generated conversations."""

import ast
import hashlib
import itertools
import json
import math
import random
import re
import unicodedata
from email.message import Message
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from penny_models import tiny
from penny_models.training import corpus as corpus_module
from penny_models.training import data
from penny_models.training.batches import window_batches
from penny_models.training.chat import arithmetic, build, builtin_objects, documentation, smalltalk, tools
from penny_models.training.chat.base import Dialogue, assistant, render, user
from penny_models.training.corpus import Corpus, build_corpus, is_held_out, manifest
from penny_models.training.data import bits_per_byte, summarise
from penny_models.training.licences import permissive_licence
from penny_models.training.ngram import NGram
from penny_models.training.shards import TokenStream, load_streams
from penny_models.training.sources import Document, Kind, document, stdlib_documents
from penny_models.training.tokenizer import train_tokenizer


def metadata(*fields: tuple[str, str]) -> Message:
    message = Message()
    for name, value in fields:
        message[name] = value
    return message


OSI = "License :: OSI Approved"


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ([("License-Expression", "MIT")], "MIT"),
        (
            [("License-Expression", "Apache-2.0 OR (BSD-3-Clause AND MIT)")],
            "Apache-2.0 OR (BSD-3-Clause AND MIT)",
        ),
        ([("License-Expression", "MIT AND GPL-3.0-only")], None),
        ([("License-Expression", "MIT OR LGPL-2.1")], None),
        ([("License-Expression", "GPL-3.0-only"), ("License", "MIT")], None),
        ([("Classifier", f"{OSI} :: MIT License")], "MIT"),
        ([("Classifier", OSI), ("Classifier", f"{OSI} :: BSD License")], "BSD"),
        (
            [("Classifier", f"{OSI} :: MIT License"), ("Classifier", f"{OSI} :: Apache Software License")],
            "Apache-2.0 OR MIT",
        ),
        (
            [
                ("Classifier", f"{OSI} :: MIT License"),
                ("Classifier", f"{OSI} :: GNU General Public License v3 (GPLv3)"),
            ],
            None,
        ),
        ([("Classifier", "License :: Other/Proprietary License"), ("License", "MIT")], None),
        ([("License", " mit license ")], "MIT"),
        ([("License", "MIT, but do not ask")], None),
        ([("License", "NVIDIA Proprietary Software")], None),
        ([("Classifier", "Topic :: Software Development")], None),
        ([], None),
    ],
)
def test_only_permissive_licences(fields: list[tuple[str, str]], licence: str | None) -> None:
    assert permissive_licence(metadata(*fields)) == licence


def doc(text: str, source: str = "package", kind: Kind = "code") -> Document:
    return document(source, "1", "MIT", f"{text[:8]}.py", kind, text)


def texts(documents: tuple[Document, ...]) -> list[str]:
    return [item.text for item in documents]


def held_out_by_hand(text: str, one_in: int) -> bool:
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big") % one_in == 0


def test_the_split_is_by_content_and_deterministic() -> None:
    documents = [doc(f"text number {n}") for n in range(1000)]
    made = build_corpus(documents, 10**9)
    shuffled = list(documents)
    random.Random(1).shuffle(shuffled)
    assert build_corpus(shuffled, 10**9) == made
    assert set(texts(made.held_out)) == {d.text for d in documents if held_out_by_hand(d.text, 64)}
    assert len(made.held_out) > 0
    assert sorted(texts(made.train + made.held_out)) == sorted(d.text for d in documents)


def test_each_kind_has_its_share_held_out() -> None:
    digest = f"{24 * 5:064x}"
    assert [is_held_out(digest, kind) for kind in ("code", "prose", "chat")] == [False, True, False]
    assert is_held_out(f"{64 * 3:064x}", "code")
    with pytest.raises(KeyError):
        is_held_out(digest, "poem")


def test_duplicates_are_taken_once_from_the_standard_library_first() -> None:
    copies = [doc("the same", source="zpackage"), doc("the same", source="python"), doc("the same")]
    made = build_corpus(copies, 10**9)
    assert [d.source for d in made.train + made.held_out] == ["python"]


def test_caps_hold_for_code_of_packages_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_module, "SOURCE_LIMIT_BYTES", 100)
    sources = ("python", "one", "two")
    code = [doc(f"{source} {n:02d} ".ljust(20, "."), source=source) for source in sources for n in range(20)]
    prose = [doc(f"prose {n:02d} ".ljust(20, "."), source="one", kind="prose") for n in range(20)]

    def taken(limit_bytes: int) -> dict[tuple[str, str], int]:
        made = build_corpus(code + prose, limit_bytes)
        both = made.train + made.held_out
        return {
            key: sum((d.source, d.kind) == key for d in both)
            for key in (("python", "code"), ("one", "prose"), ("one", "code"), ("two", "code"))
        }

    whole = {("python", "code"): 20, ("one", "prose"): 20}
    # A distribution's prose counts towards its cap: 400 bytes of it leave no room for its code.
    assert taken(10**9) == {**whole, ("one", "code"): 0, ("two", "code"): 5}
    assert taken(800 + 40) == {**whole, ("one", "code"): 0, ("two", "code"): 2}
    assert taken(0) == {**whole, ("one", "code"): 0, ("two", "code"): 0}


def test_the_manifest_hashes_texts_in_path_order() -> None:
    made = build_corpus([doc("bbb"), doc("aaa"), doc("ccc", source="python")], 10**9)
    record = manifest(made)
    package, python = record["sources"]
    assert (package["name"], package["files"], package["bytes"]) == ("package", 2, 6)
    assert package["sha256"] == hashlib.sha256(b"aaabbb").hexdigest()
    assert python["sha256"] == hashlib.sha256(b"ccc").hexdigest()
    both = hashlib.sha256(b"aaabbb").digest() + hashlib.sha256(b"ccc").digest()
    assert record["sha256"] == hashlib.sha256(both).hexdigest()
    assert record["standard_library_modules"] == ["ccc.py"]


def test_the_standard_library_is_read() -> None:
    first = list(itertools.islice(stdlib_documents(), 60))
    assert {item.licence for item in first} == {"PSF-2.0"}
    assert all(64 <= len(item.text.encode()) <= 200_000 for item in first)
    assert all(item.sha256 == hashlib.sha256(item.text.encode()).hexdigest() for item in first)
    assert len({item.path for item in first}) == 60


def test_windows_cover_the_stream_once_a_pass() -> None:
    tokens = np.arange(1000, dtype=np.uint16)
    batches = window_batches(tokens, 64, 3, seed=9, device=torch.device("cpu"))
    again = window_batches(tokens, 64, 3, seed=9, device=torch.device("cpu"))
    shift = None
    starts: list[int] = []
    for _ in range(4):  # 14 or 15 windows make at least four batches
        batch = next(batches)
        assert torch.equal(batch, next(again))
        assert batch.dtype == torch.int64
        assert batch.shape == (3, 64 + 4)
        assert torch.equal(batch - batch[:, :1], torch.arange(68).expand(3, -1))
        starts += batch[:, 0].tolist()
        shift = starts[0] % 64 if shift is None else shift
    assert len(set(starts)) == 12
    assert {start % 64 for start in starts} == {shift}


def test_too_few_tokens_for_a_batch() -> None:
    tokens = np.zeros(200, dtype=np.uint16)
    with pytest.raises(ValueError, match=r"200 tokens hold .* windows of 64; a batch needs 4"):
        next(window_batches(tokens, 64, 4, seed=0, device=torch.device("cpu")))


# Counts of "a b a b c a b a" by hand. Trigrams: aba 2, bab, abc, bca, cab. Kneser-Ney bigrams (kinds of left
# neighbours): ab 2, ba, bc, ca. Discounts n1 / (n1 + 2 n2): bigrams 3 / 5, trigrams 4 / 6. Kinds of bigrams
# that end in a, b, c: 2, 1, 1; with 1/2 added to each, of 11/2: 5/11, 3/11, 3/11.
TOY = np.array([0, 1, 0, 1, 2, 0, 1, 0], dtype=np.uint16)


@pytest.mark.parametrize(
    ("words", "probability"),
    [
        # p(. | b) = (count - 3/5 + 3/5 * 2 * lower) / 2,
        # p(. | ab) = (count - 2/3 + 2/3 * 2 * p(. | b)) / 3.
        ((0, 1, 0), Fraction(36, 55)),
        ((0, 1, 2), Fraction(15, 55)),
        ((0, 1, 1), Fraction(4, 55)),
        # "c c" was never seen: p(a | c) = 2/5 + 3/5 * 5/11.
        ((2, 2, 0), Fraction(37, 55)),
    ],
)
def test_the_trigram_by_hand(words: tuple[int, int, int], probability: Fraction) -> None:
    model = NGram.count(TOY, 3)
    first, second, third = (np.array([word], dtype=np.uint64) for word in words)
    assert model.trigram_probabilities(first, second, third)[0] == pytest.approx(float(probability))


def test_sums_of_nats_by_hand() -> None:
    model = NGram.count(TOY, 3)
    words = np.array([0, 1, 2], dtype=np.uint16)
    # Unigrams with one added: 5, 4 and 2 of 11.
    assert model.unigram_nll(words) == pytest.approx(-math.log(4 / 11) - math.log(2 / 11))
    assert model.trigram_nll(words) == pytest.approx(-math.log(4 / 11) - math.log(15 / 55))


def test_trigram_probabilities_sum_to_one() -> None:
    rng = np.random.default_rng(0)
    model = NGram.count(rng.integers(0, 40, 3000).astype(np.uint16), 50)
    every = np.arange(50, dtype=np.uint64)
    for first, second in ((0, 1), (7, 7), (39, 3), (45, 2), (3, 45), (49, 49)):
        left = np.full(50, first, dtype=np.uint64), np.full(50, second, dtype=np.uint64)
        assert model.trigram_probabilities(*left, every).sum() == pytest.approx(1.0)


def test_a_vocabulary_that_the_keys_cannot_hold() -> None:
    with pytest.raises(ValueError, match="ids below 4096; the vocabulary has 5000"):
        NGram.count(TOY, 5000)


def test_bits_per_byte() -> None:
    assert bits_per_byte(8 * math.log(2), 4) == pytest.approx(2.0)
    empty = np.zeros(0, dtype=np.uint16)
    streams = {"code": TokenStream(empty, 10), "chat": TokenStream(empty, 30)}
    nats = {"code": 20 * math.log(2), "chat": 30 * math.log(2)}
    assert summarise(nats, streams) == pytest.approx({"code": 2.0, "chat": 1.0, "all": 50 / 40})


def test_a_tokenizer_needs_enough_text() -> None:
    with pytest.raises(ValueError, match="instead of 4096: the text is too small"):
        train_tokenizer(iter(["too little"]))


def test_sums_in_conversations_are_right() -> None:
    for dialogue in arithmetic.dialogues(random.Random(1), 200):
        problems = dialogue.key.removeprefix("arithmetic/").split(";")
        answers = [m["content"] for m in dialogue.messages if m["role"] == "assistant"]
        assert len(problems) == len(answers)
        for problem, answer in zip(problems, answers, strict=True):
            left, sign, right = problem.split()
            value = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}[sign](int(left), int(right))
            found = re.search(r"(-?\d+)\.?$", answer)
            assert found is not None
            assert int(found[1]) == value


def test_tool_calls_fit_the_offered_tools() -> None:
    for dialogue in tools.tool_dialogues(random.Random(2), 200):
        offered = {tool["function"]["name"]: tool["function"]["parameters"] for tool in dialogue.tools}
        call = dialogue.messages[1]["tool_calls"][0]["function"]
        schema = offered[call["name"]]
        assert list(call["arguments"]) == schema["required"]
        kinds = {"string": str, "integer": int}
        for key, value in call["arguments"].items():
            assert isinstance(value, kinds[schema["properties"][key]["type"]])
            assert str(value) in dialogue.messages[0]["content"]
        if call["name"] == "add" and len(dialogue.messages) == 4:
            assert int(dialogue.messages[2]["content"]) == call["arguments"]["a"] + call["arguments"]["b"]


def test_json_answers_hold_the_asked_facts() -> None:
    for dialogue in tools.json_dialogues(random.Random(3), 100):
        value = json.loads(dialogue.messages[1]["content"])
        facts = dialogue.key.removeprefix("json/").split(" and ")
        assert {fact.split()[0]: fact.split()[1] for fact in facts} == {k: str(v) for k, v in value.items()}


SOURCE = '''"""Tools for tea and for kettles."""

def boil(water):
    """Heat the water until it boils.

    More about it.
    """
    return water * 2

def _hidden():
    """Never asked about, for it is private."""

class Kettle:
    """A pot with a spout and a lid."""

    def pour(self):
        """Pour what is in it into a cup."""
'''


def test_questions_are_answered_from_docstrings() -> None:
    item = document("python", "3.11", "PSF-2.0", "kitchen/tea.py", "code", SOURCE)
    found = list(documentation.dialogues(item, random.Random(0)))
    answers = [dialogue.messages[1]["content"] for dialogue in found]
    assert answers == [
        "Tools for tea and for kettles.",
        "Heat the water until it boils.",
        "A pot with a spout and a lid.",
        "Pour what is in it into a cup.",
    ]
    names = ["kitchen.tea", "kitchen.tea.boil", "kitchen.tea.Kettle", "kitchen.tea.Kettle.pour"]
    for dialogue, name in zip(found, names, strict=True):
        assert name in dialogue.messages[0]["content"]
        assert dialogue.key == item.sha256
    shown = [
        d
        for seed in range(30)
        for d in documentation.dialogues(item, random.Random(seed))
        if len(d.messages) > 2
    ]
    assert shown
    for dialogue in shown:
        code = dialogue.messages[3]["content"].removeprefix("```python\n").removesuffix("\n```")
        assert isinstance(ast.parse(code).body[0], ast.FunctionDef)
    broken = document("python", "3.11", "PSF-2.0", "x.py", "code", "def broken(:")
    assert list(documentation.dialogues(broken, random.Random(0))) == []


def test_questions_about_builtin_functions() -> None:
    found = {d.key: d.messages[1]["content"] for d in builtin_objects.dialogues(random.Random(0), 1)}
    assert found["builtin/len"] == len.__doc__
    assert found["builtin/str.upper"] == str.upper.__doc__


def test_a_conversation_as_the_template_writes_it() -> None:
    dialogue = Dialogue("key", (user("Hi"), assistant("Hello!", "I greet.")))
    assert render(dialogue) == (
        "<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n<think>\nI greet.\n</think>\n\nHello!<|im_end|>\n"
    )


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SMALLTALK", "ARITHMETIC", "TOOLS", "JSON"):
        monkeypatch.setattr(build, name, 60)
    monkeypatch.setattr(build, "BUILTIN_REPEATS", 0)


@pytest.mark.usefixtures("few")
def test_generated_chat_follows_the_split_of_its_files() -> None:
    shown, hidden = SOURCE, SOURCE.replace("water", "broth").replace("pot", "pan")
    files = Corpus((doc(shown, source="python"),), (doc(hidden, source="python"),))
    made = build.build_chat(files, 5, 10**6, "tiny-27b")
    assert build.build_chat(files, 5, 10**6, "tiny-27b") == made
    assert build.build_chat(files, 6, 10**6, "tiny-27b") != made
    trained, held_out = set(texts(made.train)), set(texts(made.held_out))
    assert trained.isdisjoint(held_out)
    assert any("Heat the water" in text for text in trained)
    assert any("Heat the broth" in text for text in held_out)
    assert not any("broth" in text for text in trained)
    assert not any("water" in text for text in held_out)


def some_documents() -> list[Document]:
    """Short documents of the standard library: all prose and held-out code, and some other code."""
    every = [item for item in stdlib_documents() if len(item.text) < 12_000]
    return [item for item in every if item.kind == "prose" or is_held_out(item.sha256, "code")] + every[:40]


@pytest.mark.usefixtures("few")
def test_the_data_step_is_repeatable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read = some_documents()
    monkeypatch.setattr(data, "stdlib_documents", lambda: iter(read))
    monkeypatch.setattr(data, "package_documents", lambda: iter([doc("x = 1\n" * 20)]))
    record = data.build_data(tmp_path / "one", "tiny-27b", 27, 10**7)
    assert data.build_data(tmp_path / "two", "tiny-27b", 27, 10**7) == record
    files = sorted(file.relative_to(tmp_path / "one") for file in (tmp_path / "one").rglob("*.*"))
    for file in files:
        if file.suffix == ".json":
            assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    assert {str(file) for file in files} >= {"train.npz", "held_out.npz", "tokenizer/tokenizer.json"}

    train = load_streams(tmp_path / "one" / "train.npz")["train"]
    assert hashlib.sha256(train.tokens.tobytes()).hexdigest() == record["train_tokens_sha256"]
    assert (len(train.tokens), train.text_bytes) == (record["train_tokens"], record["train_bytes"])
    assert sum(record["train_bytes_by_kind"].values()) == record["train_bytes"]
    # The tokens are the texts, each closed by an end marker, and none of the held-out ones.
    tokenizer = Tokenizer.from_file(str(tmp_path / "one" / "tokenizer" / "tokenizer.json"))
    trained = set(tokenizer.decode(train.tokens.tolist(), skip_special_tokens=False).split("<|endoftext|>"))
    for item in read:
        text = unicodedata.normalize("NFC", item.text)
        assert (text in trained) != held_out_by_hand(item.text, 64 if item.kind == "code" else 24)
    numbers = json.loads((tmp_path / "one" / "baselines.json").read_text())
    assert all(numbers["trigram"][kind] < numbers["unigram"][kind] for kind in ("code", "chat", "all"))


@pytest.mark.usefixtures("few")
def test_a_tokenizer_can_be_taken_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(data, "stdlib_documents", lambda: iter(some_documents()))
    monkeypatch.setattr(data, "package_documents", lambda: iter(()))
    shipped = tiny.path("tiny-27b")
    record = data.build_data(tmp_path, "tiny-next", 27, 10**6, shipped / "tokenizer.json")
    assert record["name"] == "tiny-next"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "tokenizer" / name).read_text() == (shipped / name).read_text()


def test_small_talk_knows_its_own_name() -> None:
    said = [m["content"] for d in smalltalk.dialogues(random.Random(4), 100, "tiny-next") for m in d.messages]
    assert any("I am tiny-next" in text for text in said)
    assert not any("tiny-27b" in text or "{" in text for text in said)


def test_small_talk_alternates_roles() -> None:
    for dialogue in smalltalk.dialogues(random.Random(4), 100, "tiny-27b"):
        roles = [message["role"] for message in dialogue.messages]
        turns = roles[1:] if roles[0] == "system" else roles
        assert turns == ["user", "assistant"] * (len(turns) // 2)
