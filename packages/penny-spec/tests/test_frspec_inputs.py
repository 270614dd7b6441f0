"""Inputs: the same documents from each form and compression, and what is refused."""

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from penny_spec.frspec import Fields, InputError, Labels, Source, find_files, parse_source
from penny_spec.frspec.choices import read_choices
from penny_spec.frspec.documents import BLOCK, LIMIT, Document, NotTextError, read_documents

TEXTS = ["first \u00e9", "second\nline", "third \u4f60\u597d"]


def documents(source: Source | Path, fields: Fields | None = None) -> list[Document]:
    source = Source(source) if isinstance(source, Path) else source
    files = find_files([source])
    return [d for file in files for d in read_documents(file, fields or Fields(), lambda read: None)]


def texts(path: Path) -> list[str]:
    return [document.text for document in documents(path)]


def jsonl(rows: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


ROWS = jsonl([{"text": text, "language": "xx", "n": 1} for text in TEXTS])


def two_members(data: bytes, compress: Callable[[bytes], bytes]) -> bytes:
    return compress(data[:20]) + compress(data[20:])


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl", ROWS),
        ("a.NDJSON", ROWS.replace(b"\n", b"\r\n\r\n")),
        ("a.jsonl", ROWS.rstrip()),
        ("a.jsonl.gz", gzip.compress(ROWS)),
        ("a.jsonl.gz", two_members(ROWS, gzip.compress) + b"\0" * 10),
        ("a.jsonl.zst", zstd(ROWS)),
        ("a.jsonl.zst", two_members(ROWS, zstd)),
    ],
    ids=range(7),  # not the data: a gzip file holds the second in which it was made
)
def test_rows_from_each_form(name: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    found = documents(tmp_path / name)
    assert [document.text for document in found] == TEXTS
    assert {document.labels for document in found} == {Labels("xx", "unlabelled")}
    assert found[0].data == b"first \xc3\xa9"


def test_parquet_rows(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"body": [*TEXTS, None], "language": ["fr", None, "zh", "zh"], "unused": [1, 2, 3, 4]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    found = documents(tmp_path / "a.parquet", Fields(text="body"))
    assert [document.text for document in found] == TEXTS
    assert [document.labels.language for document in found] == ["fr", "unlabelled", "zh"]
    with pytest.raises(InputError, match="has no column 'text', but 'body', 'language', 'unused'"):
        documents(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match="is no readable parquet file"):
        documents(tmp_path / "b.parquet")


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").touch()
    with pytest.raises(InputError, match=r"pip install 'penny-spec\[parquet\]'"):
        documents(tmp_path / "a.parquet")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_a_long_text_is_cut_at_blank_lines(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    paragraph = "word " * 199 + "\u00e9nd.\n\n"  # 1,001 characters
    text = paragraph * 50
    path = tmp_path / ("a.txt" + {gzip.compress: ".gz", zstd: ".zst"}.get(pack, ""))
    path.write_bytes(pack(text.encode()))
    found = texts(path)
    assert "".join(found) == text
    # The first blank line at or after character 16,384 ends paragraph 17; 50 = 17 + 17 + 16.
    assert BLOCK == 16384
    assert [len(part) for part in found] == [17 * 1001, 17 * 1001, 16 * 1001]


def test_a_long_text_without_blank_lines_is_cut_at_a_line_end_or_there_and_then(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(("x" * 999 + "\n") * 100, encoding="utf-8")
    assert [len(part) for part in texts(tmp_path / "a.txt")] == [65_000, 35_000]
    (tmp_path / "b.txt").write_text("x" * 200_000, encoding="utf-8")
    assert [len(part) for part in texts(tmp_path / "b.txt")] == [LIMIT, LIMIT, LIMIT, 200_000 - 3 * LIMIT]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_a_blank_line_behind_the_limit_is_not_seen(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    # However much of the file arrives at once, the cut is the same.
    path = tmp_path / ("a.txt" + {gzip.compress: ".gz", zstd: ".zst"}.get(pack, ""))
    path.write_bytes(pack(b"x" * 70_000 + b"\n\n" + b"y" * 20_000))
    assert [len(part) for part in texts(path)] == [LIMIT, 90_002 - LIMIT]


def test_labels_of_the_source_come_before_those_of_the_row(tmp_path: Path) -> None:
    rows = jsonl([{"text": "a", "lang": "de", "topic": "law"}, {"text": "b", "lang": None}])
    (tmp_path / "a.jsonl").write_bytes(rows)
    fields = Fields(language="lang", domain="topic")
    found = documents(tmp_path / "a.jsonl", fields)
    assert [document.labels for document in found] == [Labels("de", "law"), Labels()]
    found = documents(Source(tmp_path / "a.jsonl", language="zh"), fields)
    assert [document.labels for document in found] == [Labels("zh", "law"), Labels("zh", "unlabelled")]


def test_parse_source(tmp_path: Path) -> None:
    assert parse_source("a/b.txt") == Source(Path("a/b.txt"))
    assert parse_source("a:b.txt:lang=zh,domain=prose") == Source(Path("a:b.txt"), "zh", "prose")
    assert parse_source("a:domain=code") == Source(Path("a"), None, "code")
    odd = tmp_path / "a:lang=zh"
    odd.touch()
    assert parse_source(str(odd)) == Source(odd)
    for wrong in ("a:size=3", "a:lang=zh,lang=en", "a:lang=zh,language=en"):
        with pytest.raises(InputError, match="each of the two keys once"):
            parse_source(wrong)


def test_folders_are_read_recursively_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("c/b.txt", "c/a/z.py", "c/.git/config", "c/.hidden", "c/a/blob.bin"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    (tmp_path / "c/link.txt").symlink_to(tmp_path / "c/b.txt")
    monkeypatch.chdir(tmp_path)
    assert [file.name for file in find_files([Source(Path("c"))])] == ["c/a/blob.bin", "c/a/z.py", "c/b.txt"]
    assert [file.name for file in find_files([Source(tmp_path / "c")])] == [
        "c/a/blob.bin",
        "c/a/z.py",
        "c/b.txt",
    ]
    with pytest.raises(InputError, match="is named twice"):
        find_files([Source(Path("c")), Source(Path("c/b.txt"), "en")])


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no file or folder"):
        find_files([Source(tmp_path / "none.txt")])
    with pytest.raises(InputError, match="holds no files"):
        find_files([Source(tmp_path)])


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("a.jsonl", b'{"text": "a"}\n\n{"text": \n', r"Line 3 of .*a\.jsonl is no JSON"),
        ("a.jsonl", b"[" * 100_000, r"Line 1 of .* is no JSON"),
        ("a.jsonl", b"[1]\n", r"Line 1 of .* is a list; write one JSON object a line"),
        ("a.jsonl", b'{"body": "a", "id": 1}\n', r"no field 'text' in line 1 of .*, but 'body', 'id'"),
        ("a.jsonl", b'{"text": 7}\n', r"field 'text' in line 1 of .* is a int"),
        ("a.jsonl", b'{"text": "\\ud800"}\n', r"line 1 of .* has half a surrogate pair"),
        ("a.jsonl", b'{"text": "a", "language": ["en"]}\n', r"'language' in line 1 of .* is \['en'\]"),
        ("a.jsonl", b"\xff\n", r"Line 1 of .* is no JSON"),
        ("a.jsonl.gz", gzip.compress(ROWS)[:-12], r"is damaged \(it ends inside the compressed data\)"),
        ("a.jsonl.zst", zstd(ROWS)[:-5], r"is damaged \(it ends inside the compressed data\)"),
        ("a.txt.gz", b"plain", r"is damaged"),
        ("a.txt.zst", b"plain text", r"is damaged"),
        ("a.txt", b"ok \xff", r"a\.txt is no UTF-8"),
        ("a.txt", b"cut \xc3", r"a\.txt is no UTF-8"),
        ("a.txt", b"a\0b", r"a\.txt holds NUL bytes"),
    ],
    ids=range(15),  # not the data: a gzip file holds the second in which it was made
)
def test_bad_inputs(name: str, data: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=sentence):
        documents(tmp_path / name)


def test_binary_files_are_no_text_rather_than_bad_input(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\x89PNG\0")
    with pytest.raises(NotTextError):
        documents(tmp_path / "a.txt")


def test_empty_and_null_texts_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl([{"text": ""}, {"text": None}, {"text": "a"}]))
    assert texts(tmp_path / "a.jsonl") == ["a"]
    (tmp_path / "b.txt").touch()
    assert texts(tmp_path / "b.txt") == []


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.jsonl.gz", "a.parquet"])
def test_progress_adds_up_to_the_files_size(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "a.parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"text": ["a"] * 512}), path)
    else:
        path.write_bytes(gzip.compress(ROWS) if name.endswith(".gz") else ROWS * 3000)
    read: list[int] = []
    for _ in read_documents(find_files([Source(path)])[0], Fields(), read.append):
        pass
    assert path.stat().st_size - 1 <= sum(read) <= path.stat().st_size  # parquet shares round down


def choices(path: Path) -> list[list[int]]:
    file = find_files([Source(path)])[0]
    found = read_choices(file, "ids", Fields(), frozenset(range(10)), lambda read: None)
    return [choice.ids.tolist() for choice in found]


def test_choices(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstd(jsonl([{"ids": [1, 2]}, {"ids": []}, {"ids": [9]}])))
    assert choices(path) == [[1, 2], [9]]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"ids": [3, 10]}, "Token 10 in line 1 of .* is no id of the tokenizer"),
        ({"ids": [-1]}, "Token -1 in line 1"),
        ({"ids": [10**30]}, "Token 1000"),
        ({"ids": [True]}, "is no list of token ids"),
        ({"ids": "1 2"}, "is no list of token ids"),
        ({"other": [1]}, "'ids' in line 1 of .* is no list of token ids"),
    ],
)
def test_bad_choices(row: dict[str, object], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl([row]))
    with pytest.raises(InputError, match=sentence):
        choices(tmp_path / "a.jsonl")
