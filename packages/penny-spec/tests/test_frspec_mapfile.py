"""The map file: what stock loads, what is refused, and that no code in a file runs."""

import hashlib
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from penny_spec.frspec import InputError, MapError, check_ids, ids_sha256, load_map
from penny_spec.frspec.mapfile import map_bytes, write_whole


class Planted:
    """Creates a file when it is unpickled by code that executes what it reads."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def saved(folder: Path, value: object) -> Path:
    path = folder / "map.pt"
    torch.save(value, path)
    return path


def test_stock_loads_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "map.pt"
    write_whole(path, map_bytes([0, 5, 9]))
    assert load_map(path, 10).tolist() == [0, 5, 9]
    pytest.importorskip("sglang")
    from sglang.srt.speculative.spec_utils import load_token_map

    loaded = load_token_map(str(path))
    assert isinstance(loaded, torch.Tensor)
    assert (loaded.dtype, loaded.tolist()) == (torch.int64, [0, 5, 9])


def test_digest_of_the_ids() -> None:
    assert ids_sha256([1, 258]) == hashlib.sha256(struct.pack("<2q", 1, 258)).hexdigest()
    assert ids_sha256(torch.tensor([1, 258])) == ids_sha256([1, 258])


def test_equal_ids_give_equal_bytes() -> None:
    assert map_bytes([1, 2, 3]) == map_bytes([1, 2, 3])
    assert map_bytes([1, 2, 3]) != map_bytes([1, 2, 4])


@pytest.mark.parametrize("form", ["torch", "legacy", "bare pickle"])
def test_code_in_a_file_is_never_executed(form: str, tmp_path: Path) -> None:
    mark, path = tmp_path / "executed", tmp_path / "map.pt"
    if form == "bare pickle":
        path.write_bytes(pickle.dumps(Planted(mark), protocol=2))
    else:
        torch.save(Planted(mark), path, _use_new_zipfile_serialization=form == "torch")
    with pytest.raises(MapError, match="without executing code"):
        load_map(path)
    assert not mark.exists()
    # The plant works: a reader that trusts the file runs it.
    if form == "bare pickle":
        pickle.loads(path.read_bytes())
    else:
        torch.load(path, weights_only=False)
    assert mark.exists()


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([1, 2], "holds a list; a map is a 1-D int64 tensor"),
        ({"ids": torch.tensor([1])}, "holds a dict"),
        (7, "holds a int"),
        (torch.tensor([[1, 2]]), r"shape \(1, 2\)"),
        (torch.tensor(3), r"shape \(\)"),
        (torch.tensor([1, 2], dtype=torch.int32), r"torch\.int32; ids are int64"),
        (torch.tensor([1.0, 2.0]), r"torch\.float32; ids are int64"),
        (torch.tensor([False, True]), r"torch\.bool; ids are int64"),
        (torch.tensor([], dtype=torch.int64), "is empty"),
        (torch.tensor([-1, 2]), "holds id -1; ids are not negative"),
        (torch.tensor([1, 10]), "holds id 10; the vocabulary ends at 9"),
        (torch.arange(11), "has 11 rows, the vocabulary 10"),
        (torch.tensor([1, 4, 3]), r"holds id 3 after 4 \(row 2\)"),
        (torch.tensor([1, 4, 4]), r"holds id 4 twice \(row 2\)"),
        (torch.tensor([1, 2]).to_sparse(), "dense 1-D tensor"),
        (torch.arange(8)[::2], "strided view"),
    ],
)
def test_bad_maps(value: object, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(MapError, match=sentence):
        load_map(saved(tmp_path, value), 10)


def test_a_giant_view_of_one_number_is_refused_before_it_is_read() -> None:
    with pytest.raises(MapError, match="strided view"):
        check_ids(torch.zeros(1, dtype=torch.int64).expand(1 << 50), "map")


def test_without_a_vocabulary_the_upper_end_is_open(tmp_path: Path) -> None:
    assert load_map(saved(tmp_path, torch.tensor([1, 10**12]))).tolist() == [1, 10**12]


@pytest.mark.parametrize("data", [b"", b"no tensor file", b"PK\x03\x04 cut", b"\x80\x04"])
def test_damaged_files(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "map.pt"
    path.write_bytes(data)
    with pytest.raises(MapError, match="cannot be read as a tensor file"):
        load_map(path)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    whole, path = map_bytes(list(range(50))), tmp_path / "map.pt"
    for end in range(1, len(whole) - 1, 29):
        path.write_bytes(whole[:end])
        with pytest.raises(MapError):
            load_map(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no file"):
        load_map(tmp_path / "none.pt")


def test_a_failed_write_leaves_the_old_file_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "map.pt"
    write_whole(path, b"old")

    def fail(self: Path, target: Path) -> Path:
        raise OSError("disk")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["map.pt"]
