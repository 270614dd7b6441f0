"""`penny serve` with token maps and draft settings that cannot work: a sentence and an exit code before any server."""

from __future__ import annotations

import pickle
import socket
from pathlib import Path

import pytest
import torch

from penny_server.cli.run import run


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Runs `penny serve PROFILE` with settings; returns exit code and what it said. No run folder may be made."""

    def serve(profile: str, *settings: str) -> tuple[int, str]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        options = ["--device", "cpu", "--port", port, "--log-dir", str(tmp_path / "runs")]
        code = run(["serve", profile, *options, *(f"--set={setting}" for setting in settings)])
        said = " ".join(capsys.readouterr().err.split())
        assert not (tmp_path / "runs").exists()
        assert "Traceback" not in said
        assert "unexpected way" not in said
        return code, said

    return serve


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (torch.tensor([0, 1, 4096]), "vocabulary ends at 4,095"),
        (torch.tensor([3, 1]), "id 1 after 3"),
        (torch.tensor([1, 1, 2]), "id 1 twice"),
        (torch.zeros(0, dtype=torch.int64), "is empty"),
        (torch.arange(5000), "vocabulary 4,096"),
        ({"ids": [1, 2]}, "holds a dict"),
    ],
    ids=["out-of-range", "unsorted", "duplicated", "empty", "above", "no-tensor"],
)
def test_a_map_that_is_none(refused, tmp_path: Path, ids: object, words: str) -> None:
    torch.save(ids, tmp_path / "map.pt")
    code, said = refused("tiny-27b-nextn", f"speculative_token_map={tmp_path / 'map.pt'}")
    assert code == 4
    assert words in said


class Planted:
    """A pickle that would leave a file behind."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_a_map_with_code(refused, tmp_path: Path) -> None:
    mark, file = tmp_path / "executed", tmp_path / "map.pt"
    for written in (
        lambda: torch.save(Planted(mark), file),
        lambda: file.write_bytes(pickle.dumps(Planted(mark))),
    ):
        written()
        code, said = refused("tiny-27b-nextn", f"speculative_token_map={file}")
        assert code == 4
        assert "without executing code" in said
        assert not mark.exists()


@pytest.mark.parametrize(
    ("profile", "settings", "words"),
    [
        (
            "tiny-next",
            ("speculative_num_draft_tokens=8",),
            "speculative_num_draft_tokens is 8, and the sparse-attention",
        ),
        ("tiny-27b-nextn", ("speculative_eagle_topk=2",), "only chains are verified here: top-k 1"),
        ("tiny-27b-dflash2", ("speculative_eagle_topk=2",), "DFLASH drafts a block in one step: only 1 fits"),
        ("tiny-27b-dflash2", ("speculative_num_draft_tokens=1",), "DFLASH needs at least 2"),
    ],
)
def test_settings_of_drafts(refused, profile: str, settings: tuple[str, ...], words: str) -> None:
    code, said = refused(
        profile, "speculative_algorithm=" + ("DFLASH" if "dflash" in profile else "NEXTN"), *settings
    )
    assert code == 2
    assert words in said
