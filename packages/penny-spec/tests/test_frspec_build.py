"""Whole builds on a tokenizer of twelve words, so that every count can be made by hand."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from penny_spec.frspec import (
    Built,
    CoverageError,
    Fields,
    InputError,
    Recipe,
    Source,
    Vocabulary,
    build,
    compare_maps,
    find_files,
    inspect_map,
    load_map,
    load_vocabulary,
    manifest_path,
    read_manifest,
    verify_map,
)
from penny_spec.frspec.holdout import is_held_out

WORDS = ["a", "b", "c", "d", "e", "f", "g", "h", "你", "好"]  # ids 0 to 9; <end> is 10, </think> is 11


@pytest.fixture
def vocabulary(tmp_path: Path) -> Vocabulary:
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["<end>"])
    tokenizer.add_tokens(["</think>"])
    (tmp_path / "model").mkdir()
    tokenizer.save(str(tmp_path / "model" / "tokenizer.json"))
    (tmp_path / "model" / "config.json").write_text('{"text_config": {"vocab_size": 16}}', encoding="utf-8")
    return load_vocabulary(tmp_path / "model")


RECIPE = Recipe(size=5, base=1, hold_out=0.0, floor=0.0)


def run(
    vocabulary: Vocabulary, recipe: Recipe, corpus: list[Source], choices: list[Source] | None = None
) -> Built:
    return build(vocabulary, find_files(corpus), find_files(choices or []), recipe)


def text(folder: Path, name: str, content: str, language: str | None = None) -> Source:
    (folder / name).write_text(content, encoding="utf-8")
    return Source(folder / name, language)


def sides(share: float, stem: str) -> tuple[str, str]:
    """A document that is counted and one that is held out, of the words in `stem` and trailing spaces."""
    found: dict[bool, str] = {}
    for n in range(1000):
        document = stem + " " * n
        found.setdefault(is_held_out(document.encode(), share), document)
    return found[False], found[True]


def test_a_build_by_hand(vocabulary: Vocabulary, tmp_path: Path) -> None:
    # c 3, e 2, h 2, b 1. Base: a. Added: <end>, </think>. Two rows are left: c, then e before h.
    built = run(vocabulary, RECIPE, [text(tmp_path, "a.txt", "c h e c h\ne c b")])
    assert built.ids == (0, 2, 4, 10, 11)
    manifest = built.manifest
    assert manifest.model == "model"
    assert (manifest.model_vocab_size, manifest.tokenizer_vocab_size) == (16, 12)
    assert (manifest.size, manifest.base_count, manifest.special_ids) == (5, 1, (10, 11))
    assert manifest.all_special_ids_included
    assert (manifest.corpus_tokens, manifest.corpus_bytes) == (8, 15)
    assert manifest.corpus_coverage == 5 / 8
    assert manifest.corpus[0].sha256_used == hashlib.sha256(b"c h e c h\ne c b").hexdigest()
    assert (
        manifest.tokenizer_sha256
        == hashlib.sha256((tmp_path / "model/tokenizer.json").read_bytes()).hexdigest()
    )
    assert built.warnings[0].startswith("5 rows are no multiple of the 128-row tile")


def test_only_special_tokens_kept(vocabulary: Vocabulary, tmp_path: Path) -> None:
    built = run(vocabulary, replace(RECIPE, keep_added=False), [text(tmp_path, "a.txt", "c h e c h\ne c b")])
    assert built.ids == (0, 2, 4, 7, 10)
    assert built.manifest.special_ids == (10,)


def test_choices_move_the_map_by_their_weight(vocabulary: Vocabulary, tmp_path: Path) -> None:
    corpus = [text(tmp_path, "a.txt", "c c c d d b")]
    (tmp_path / "out.jsonl").write_text('{"output_ids": [7, 7, 7, 6]}\n', encoding="utf-8")
    choices = [Source(tmp_path / "out.jsonl")]
    # Corpus frequencies c 1/2, d 1/3, b 1/6; choices h 3/4, g 1/4; two free rows.
    expected = {0.0: (2, 3), 0.3: (2, 3), 0.5: (2, 7), 0.8: (6, 7), 1.0: (6, 7)}
    # 0.3: c 0.35, d 0.233, h 0.225. 0.5: h 0.375, c 0.25, d 0.167. 0.8: h 0.6, g 0.2, c 0.1.
    for weight, free in expected.items():
        built = run(vocabulary, replace(RECIPE, choices_weight=weight), corpus, choices)
        assert built.ids == (0, *free, 10, 11), weight
        assert (built.manifest.choices_tokens, built.manifest.choices_weight) == (4, weight)
        assert [row.source for row in built.manifest.corpus] == ["corpus", "choices"]
        assert built.manifest.corpus[1].bytes_used == 32


def test_choices_alone(vocabulary: Vocabulary, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text('{"ids": [7, 7, 6]}\n', encoding="utf-8")
    recipe = replace(RECIPE, choices_weight=1.0, ids_field="ids")
    assert run(vocabulary, recipe, [], [Source(tmp_path / "out.jsonl")]).ids == (0, 6, 7, 10, 11)


def rows(folder: Path, share: float) -> Source:
    """English and Chinese rows; of each, one is counted and one is held out."""
    english, chinese = sides(share, "c e"), sides(share, "\u4f60 \u597d c c")
    path = folder / "rows.jsonl"
    lines = [{"t": t, "l": "en", "d": "prose"} for t in english] + [
        {"t": t, "l": "zh", "d": "chat"} for t in chinese
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return Source(path)


HELD = replace(RECIPE, hold_out=0.4, floor=0.5, fields=Fields("t", "l", "d"))


def test_held_out_coverage_by_group(vocabulary: Vocabulary, tmp_path: Path) -> None:
    # Counted: c 3, e 1, two characters of 1. Free rows: c and e, so Chinese is covered 2 of 4.
    built = run(vocabulary, HELD, [rows(tmp_path, 0.4)])
    assert built.ids == (0, 2, 4, 10, 11)
    found = [(row.kind, row.name, row.covered, row.tokens, row.share) for row in built.manifest.held_out]
    assert found == [
        ("all", "all", 4, 6, 4 / 6),
        ("language", "en", 2, 2, 1.0),
        ("language", "zh", 2, 4, 0.5),
        ("domain", "chat", 2, 4, 0.5),
        ("domain", "prose", 2, 2, 1.0),
    ]
    row = built.manifest.corpus[0]
    assert (row.documents, row.held_out_documents) == (2, 2)
    assert built.manifest.corpus_tokens == 6


def test_a_floor_refuses_and_names_the_group(vocabulary: Vocabulary, tmp_path: Path) -> None:
    source = rows(tmp_path, 0.4)
    with pytest.raises(CoverageError, match=r"language zh of the corpus 0\.5000 \(2 of 4 tokens\)"):
        run(vocabulary, replace(HELD, floor=0.51), [source])


def test_a_labelled_language_without_held_out_documents_is_refused(
    vocabulary: Vocabulary, tmp_path: Path
) -> None:
    counted, _ = sides(0.4, "c e")
    source = text(tmp_path, "ru.txt", counted, "ru")
    with pytest.raises(CoverageError, match="language ru of the corpus has no held-out tokens"):
        run(vocabulary, HELD, [rows(tmp_path, 0.4), source])


def test_held_out_choices_are_measured_as_a_source_of_their_own(
    vocabulary: Vocabulary, tmp_path: Path
) -> None:
    lines = [{"output_ids": [7, n % 3, n % 5, n % 7]} for n in range(105)]
    (tmp_path / "out.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    recipe = replace(HELD, floor=0.0, choices_weight=1.0)
    built = run(vocabulary, recipe, [], [Source(tmp_path / "out.jsonl", "en")])
    held_out = [
        line["output_ids"]
        for line in lines
        if is_held_out(b"".join(n.to_bytes(8, "little") for n in line["output_ids"]), 0.4)
    ]
    tokens = [token for ids in held_out for token in ids]
    group = built.manifest.held_out[0]
    assert (group.source, group.tokens) == ("choices", len(tokens))
    assert group.covered == sum(token in built.ids for token in tokens)
    assert built.manifest.choices_tokens == 420 - len(tokens)


def test_the_result_does_not_depend_on_order(vocabulary: Vocabulary, tmp_path: Path) -> None:
    sources = [text(tmp_path, f"{n}.txt", "c d e " * n + "g h") for n in range(6)]
    recipe = replace(RECIPE, hold_out=0.3)
    forward, backward = run(vocabulary, recipe, sources), run(vocabulary, recipe, sources[::-1])
    assert forward.ids == backward.ids
    assert forward.manifest.held_out == backward.manifest.held_out
    assert forward.manifest.map_sha256 == backward.manifest.map_sha256


def test_a_binary_file_of_a_folder_is_passed_over_a_named_one_refused(
    vocabulary: Vocabulary, tmp_path: Path
) -> None:
    (tmp_path / "c").mkdir()
    text(tmp_path / "c", "a.txt", "c c d")
    (tmp_path / "c" / "b.bin").write_bytes(b"\0\1")
    built = run(vocabulary, RECIPE, [Source(tmp_path / "c")])
    assert [row.path for row in built.manifest.corpus] == ["c/a.txt"]
    assert any(warning.startswith("Passed over") and "b.bin" in warning for warning in built.warnings)
    with pytest.raises(InputError, match="holds NUL bytes"):
        run(vocabulary, RECIPE, [Source(tmp_path / "c" / "b.bin")])


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        (replace(RECIPE, hold_out=1.0), r"share to hold out is 1\.0; choose 0 to below 1"),
        (replace(RECIPE, floor=1.5), r"The floor is 1\.5"),
        (replace(RECIPE, floor=0.5), "A floor needs held-out documents"),
        (replace(RECIPE, size=13), "A map of 13 rows was asked for"),
    ],
)
def test_bad_recipes(recipe: Recipe, sentence: str, vocabulary: Vocabulary, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        run(vocabulary, recipe, [text(tmp_path, "a.txt", "c")])


def test_a_field_of_a_thousand_values_is_no_language(vocabulary: Vocabulary, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"text": "c", "language": "{n}"}}\n' for n in range(1000)), encoding="utf-8")
    with pytest.raises(InputError, match="More than 256 pairs of language and domain"):
        run(vocabulary, RECIPE, [Source(path)])


def written(vocabulary: Vocabulary, folder: Path) -> Path:
    path = folder / "map.pt"
    run(vocabulary, RECIPE, [text(folder, "a.txt", "c h e c h\ne c b")]).write(path)
    return path


def test_what_is_written_verifies(vocabulary: Vocabulary, tmp_path: Path) -> None:
    path = written(vocabulary, tmp_path)
    assert load_map(path, 16).tolist() == [0, 2, 4, 10, 11]
    manifest = read_manifest(manifest_path(path))
    assert manifest["map_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert verify_map(path, vocabulary, manifest) == []


def test_verify_names_each_fault(vocabulary: Vocabulary, tmp_path: Path) -> None:
    path = written(vocabulary, tmp_path)
    manifest = read_manifest(manifest_path(path))
    torch.save(torch.tensor([0, 2, 4, 11, 14]), path)
    problems = " ".join(verify_map(path, vocabulary, manifest))
    assert "Id 14 (of 1 such) is a padding row" in problems
    assert "1 special ids are missing, the first is 10 (<end>)" in problems
    assert "says ids_sha256" in problems
    assert "says map_sha256" in problems
    assert "special id 10 is kept; the map does not hold it" in problems
    assert "size" not in problems.replace("vocab_size", "")
    del manifest["ids_sha256"]
    assert any("no field ids_sha256" in p for p in verify_map(path, vocabulary, manifest))


def test_verify_knows_another_tokenizer(vocabulary: Vocabulary, tmp_path: Path) -> None:
    path = written(vocabulary, tmp_path)
    file = tmp_path / "model" / "tokenizer.json"
    file.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    problems = verify_map(path, load_vocabulary(tmp_path / "model"), read_manifest(manifest_path(path)))
    assert len(problems) == 1
    assert problems[0].startswith("The manifest says tokenizer_sha256")


def test_inspection(vocabulary: Vocabulary, tmp_path: Path) -> None:
    path = tmp_path / "map.pt"
    torch.save(torch.tensor([0, 1, 2, 8, 10]), path)
    found = inspect_map(path, vocabulary)
    assert (found.size, found.lowest, found.highest, found.leading) == (5, 0, 10, 3)
    assert (found.special_kept, found.special_total) == (1, 1)
    assert [(row.script, row.in_map, row.in_tokenizer) for row in found.scripts] == [
        ("Latin", 3, 8),
        ("Han", 1, 2),
        ("added tokens", 1, 2),
    ]
    assert inspect_map(path).scripts == ()


def test_comparison() -> None:
    found = compare_maps([1, 2, 3, 4], [3, 4, 5])
    assert (found.shared, found.only_left, found.only_right, found.jaccard) == (2, (1, 2), (5,), 0.4)


def test_vocabulary_refusals(vocabulary: Vocabulary, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no file"):
        load_vocabulary(tmp_path)
    with pytest.raises(InputError, match=r"The head has 11 rows, .* has ids up to 11"):
        load_vocabulary(tmp_path / "model", model_vocab_size=11)
    (tmp_path / "no.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="is no tokenizer of the tokenizers library"):
        load_vocabulary(tmp_path / "no.json")
    (tmp_path / "model" / "config.json").write_text("no", encoding="utf-8")
    with pytest.raises(InputError, match="is no JSON"):
        load_vocabulary(tmp_path / "model")
