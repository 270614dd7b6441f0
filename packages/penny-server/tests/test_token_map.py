"""The draft-vocabulary map before the start: what a user may give, and what each wrong one is told."""

from __future__ import annotations

import hashlib
import json
import pickle
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from penny_models import tiny
from penny_server.cli.resolving import Asked, launch_of
from penny_server.cli.run import run
from penny_server.errors import ExitCode, PennyError
from penny_server.profiles.rules import Case
from penny_server.profiles.rules.token_map import check_token_map

ROOT = Path(__file__).parents[3]
CHECKPOINT = tiny.path("tiny-27b")
SPECIAL = range(4070, 4096)


def check(path: Path | str) -> None:
    settings = {"speculative_algorithm": "NEXTN", "speculative_token_map": str(path)}
    check_token_map(Case(settings, {}, "cpu", None), CHECKPOINT)


def beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}.manifest.json")


def save(path: Path, ids: object) -> Path:
    torch.save(ids, path)
    return path


def test_a_map_without_a_manifest_is_taken_by_its_form(tmp_path: Path) -> None:
    check(save(tmp_path / "map.pt", torch.arange(0, 4096, 2)))


def test_no_map_and_a_repository_are_left_alone() -> None:
    check("")
    check("someone/some-model/map.pt")


@pytest.mark.parametrize("name", ["flash-next-64k.pt", "maps/absent.pt", "/a/b/absent.pt", "~/a/b/absent.pt"])
def test_a_map_that_is_not_there_can_be_built(name: str) -> None:
    with pytest.raises(PennyError, match=f"speculative_token_map is {name}, and there is no such") as caught:
        check(name)
    assert f"penny-spec map build {name} --tokenizer {CHECKPOINT} --size 65536" in caught.value.hint
    assert caught.value.exit_code == ExitCode.CHECKPOINT


def test_the_shipped_map_fits_both_checkpoints_that_have_its_tokenizer() -> None:
    shipped = tiny.token_map("tiny-next-2k")
    check(shipped)
    settings = {"speculative_algorithm": "NEXTN", "speculative_token_map": str(shipped)}
    check_token_map(Case(settings, {}, "cpu", None), tiny.path("tiny-next"))


def test_the_shipped_map_is_what_its_command_builds(tmp_path: Path) -> None:
    shipped = tiny.token_map("tiny-next-2k")
    told = json.loads(beside(shipped).read_text())
    known = ["git", "cat-file", "-e", told["corpus_source_revision"]]
    if subprocess.run(known, cwd=ROOT, capture_output=True, check=False).returncode:
        pytest.skip("the history of the repository is not here")
    built = tmp_path / "map.pt"
    subprocess.run([sys.executable, ROOT / "tools" / "tiny_map.py", built], check=True)
    assert torch.load(built).tolist() == torch.load(shipped).tolist()
    ours = json.loads(beside(built).read_text())
    # The bytes of a file are torch's, and acceptance is measured afterwards.
    for manifest in (ours, told):
        del manifest["map_sha256"], manifest["builder"]
    told.pop("acceptance", None)
    assert ours == told


def test_the_profile_that_has_it_is_given_it_unless_a_person_says_otherwise() -> None:
    def settings(*asked: str) -> dict:
        return dict(launch_of(Asked("tiny-next-frspec", "cpu", asked, dry=True))[1].settings)

    assert settings()["speculative_token_map"] == str(tiny.token_map("tiny-next-2k"))
    assert settings("speculative_token_map=mine.pt")["speculative_token_map"] == "mine.pt"
    assert "speculative_token_map" not in settings("speculative_token_map=")
    assert not [key for key in settings("speculative_algorithm=") if key.startswith("speculative_")]


@pytest.mark.parametrize(
    ("ids", "word"),
    [
        (torch.tensor([0, 1, 4096]), "vocabulary ends at 4,095"),
        (torch.tensor([-1, 1]), "not negative"),
        (torch.tensor([3, 1]), "id 1 after 3"),
        (torch.tensor([1, 1, 2]), "id 1 twice"),
        (torch.zeros(0, dtype=torch.int64), "is empty"),
        (torch.arange(5000), "vocabulary 4,096"),
        (torch.tensor([1.0, 2.0]), "holds torch.float32"),
        ([1, 2, 3], "holds a list"),
        ("a text", "holds a str"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_a_map_that_is_none_is_a_checkpoint_error(tmp_path: Path, ids: object, word: str) -> None:
    with pytest.raises(PennyError, match=word) as caught:
        check(save(tmp_path / "map.pt", ids))
    assert caught.value.exit_code == ExitCode.CHECKPOINT


class Planted:
    """A pickle that would leave a file behind."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_code_in_a_map_is_not_executed(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    planted = tmp_path / "map.pt"
    torch.save(Planted(mark), planted)
    with pytest.raises(PennyError, match="without executing code"):
        check(planted)
    assert not mark.exists()
    planted.write_bytes(pickle.dumps(Planted(mark)))
    with pytest.raises(PennyError, match="without executing code"):
        check(planted)
    assert not mark.exists()
    pickle.loads(planted.read_bytes())  # it would have
    assert mark.exists()


def test_a_map_of_another_tokenizer_is_named(tmp_path: Path) -> None:
    ids = torch.tensor([*range(100), *SPECIAL])
    path = save(tmp_path / "map.pt", ids)
    tokenizer = hashlib.sha256((CHECKPOINT / "tokenizer.json").read_bytes()).hexdigest()
    manifest = {
        "size": len(ids),
        "ids_sha256": hashlib.sha256(ids.numpy().astype("<i8").tobytes()).hexdigest(),
        "map_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "tokenizer_sha256": tokenizer,
        "tokenizer_vocab_size": 4096,
        "model_vocab_size": 4096,
        "special_ids": [],
    }
    (tmp_path / "map.manifest.json").write_text(json.dumps(manifest))
    check(path)
    (tmp_path / "map.manifest.json").write_text(json.dumps(manifest | {"tokenizer_sha256": "ab" * 32}))
    with pytest.raises(PennyError, match=f"tokenizer_sha256 {'ab' * 32}; {tokenizer} was found") as caught:
        check(path)
    assert "penny-spec map build" in caught.value.hint


def free_port() -> str:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return str(sock.getsockname()[1])


def test_serve_says_how_to_build_a_map_that_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    asked = [
        "serve",
        "tiny-next-frspec",
        "--device",
        "cpu",
        "--log-dir",
        str(tmp_path),
        "--port",
        free_port(),
    ]
    assert run([*asked, "--set", "speculative_token_map=absent.pt"]) == 4
    assert "penny-spec map build absent.pt --tokenizer" in capsys.readouterr().err
