"""Submissions: what they hold, what they must not hold, and how a changed one is found out."""

import copy
import hashlib
import io
import json
import re
import socket
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from markdown_it import MarkdownIt
from typer.testing import CliRunner

from penny_bench.errors import BenchError
from penny_bench.importers import imported, read_vllm
from penny_bench.submit import About, check, cleaned, findings, pack
from penny_bench.submit.commands import submit
from penny_bench.submit.private import hosts_of


def document(**more: Any) -> dict[str, Any]:
    """A whole document of a run, made from a result of another tool."""
    told = {
        "model_id": "m",
        "duration": 1.5,
        "completed": 2,
        "output_throughput": 4.0,
        "input_lens": [10, 10],
        "output_lens": [3, 4],
        "ttfts": [0.2, 0.3],
        "itls": [[0.1, 0.1], [0.25]],
        "start_times": [50.0, 50.5],
        "errors": ["", ""],
    }
    value = imported(
        read_vllm("r.json", json.dumps(told).encode(), datetime(2026, 1, 2, tzinfo=UTC)),
        "penny-bench run --url http://127.0.0.1:8000 --api-key ... --tokens 128 --json run.json",
        "0.1.0",
    )
    value["server"]["url"] = "http://localhost:8000/v1"
    return {**value, **more}


def write(folder: Path, name: str, value: dict[str, Any]) -> Path:
    path = folder / name
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def changed(data: bytes, change: Callable[[dict[str, bytes]], None]) -> bytes:
    """The archive with its files changed, as a stranger would with any zip program."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


ABOUT = About("A. Tester <b>", "450 W, water", "CC0-1.0")


@pytest.fixture
def packed(tmp_path: Path) -> bytes:
    one = write(tmp_path, "C4 run.json", document())
    two = write(tmp_path, "b.json", document(notes=["second"]))
    return pack([one, two], ABOUT, "0.1.0")


def test_an_archive_holds_the_files_as_they_are(tmp_path: Path, packed: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["manifest.json", "README.md", "runs/C4-run.json", "runs/b.json"]
        assert archive.read("runs/C4-run.json") == (tmp_path / "C4 run.json").read_bytes()
        manifest = json.loads(archive.read("manifest.json"))
        readme = archive.read("README.md").decode()
        sums = {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}
    assert manifest["schema"] == "penny-bench/submission/1"
    assert (manifest["license"], manifest["hardware_note"]) == ("CC0-1.0", "450 W, water")
    assert {part["path"]: part["sha256"] for part in manifest["files"]} == {
        name: value for name, value in sums.items() if name != "manifest.json"
    }
    assert [part["schema"] for part in manifest["files"]] == [None, *["penny-bench/run/1"] * 2]
    assert "The submitter publishes all of it under CC0-1.0." in readme
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(readme)
    assert "Submitted by A. Tester &lt;b&gt;." in rendered
    assert rendered.count("<table>") > 4


def test_the_same_results_give_the_same_bytes(tmp_path: Path, packed: bytes) -> None:
    again = pack([tmp_path / "b.json", tmp_path / "C4 run.json"], ABOUT, "0.1.0")
    assert again == packed
    assert pack([tmp_path / "b.json"], ABOUT, "0.1.0") != packed


def test_a_submission_as_made_is_whole(packed: bytes) -> None:
    found = check(packed)
    assert found.faults == ()
    assert found.manifest is not None
    assert found.manifest.name == "A. Tester <b>"


def edit(name: str, old: bytes, new: bytes) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        assert old in files[name]
        files[name] = files[name].replace(old, new)

    return change


def swap_with_digest(files: dict[str, bytes]) -> None:
    """A private path, with the manifest made to fit."""
    old = files["runs/b.json"]
    new = old.replace(b'"second"', b'"in /home/me/x"')
    manifest = json.loads(files["manifest.json"])
    for part in manifest["files"]:
        if part["path"] == "runs/b.json":
            part.update(sha256=hashlib.sha256(new).hexdigest(), bytes=len(new))
    files.update({"runs/b.json": new, "manifest.json": json.dumps(manifest).encode()})


CHANGES: list[tuple[Callable[[dict[str, bytes]], Any], str]] = [
    (
        edit("runs/b.json", b'"second"', b'"third!"'),
        r"runs/b.json was changed: its SHA-256 is \w{16}\.\.\., expected",
    ),
    (edit("README.md", b"water", b"wate"), "README.md was changed"),
    (lambda files: files.pop("runs/b.json"), "runs/b.json is in the manifest but not in the archive"),
    (
        lambda files: files.update({"runs/c.json": b"{}"}),
        "runs/c.json is in the archive but not in its manifest",
    ),
    (lambda files: files.pop("manifest.json"), "It has no manifest.json"),
    (edit("manifest.json", b"submission/1", b"submission/2"), "not of this form: schema"),
    (edit("manifest.json", b"runs/b.json", b"../b.json"), r"not of this form: files.2.path"),
    (edit("manifest.json", b"CC0-1.0", b"WTFPL-2"), "not of this form: license"),
    (edit("manifest.json", b"450 W, water", b"in /home/me/"), "manifest.json holds a path in hardware_note"),
    (swap_with_digest, r"runs/b.json holds a path in notes\[0\]"),
]


@pytest.mark.parametrize(("change", "sentence"), CHANGES, ids=[sentence[:30] for _, sentence in CHANGES])
def test_a_changed_submission_is_found_out(
    packed: bytes, change: Callable[[dict[str, bytes]], Any], sentence: str
) -> None:
    faults = check(changed(packed, change)).faults
    assert any(re.search(sentence, fault) for fault in faults), faults


def test_what_is_no_archive_is_found_out(packed: bytes) -> None:
    for data in (b"", b"hello", packed[: len(packed) // 2], packed[:-30]):
        (fault,) = check(data).faults
        assert "no archive that can be read" in fault
    broken = bytearray(packed)
    broken[packed.index(b"README.md") + 60] ^= 0xFF  # within the packed README
    assert check(bytes(broken)).faults


PRIVATE = [
    ("command", "penny-bench run --api-key s3cret", "a key", "penny-bench run --api-key ..."),
    ("message", "Bearer abcdefgh1234", "a key", "Bearer ..."),
    ("note", "used sk-abcdefghijklmnop1234", "a key", "used ..."),
    ("api_key", "anything", "a key", "..."),
    ("url", "http://10.1.2.3:8000/v1", "a host", "http://server.invalid:8000/v1"),
    ("url", "https://me:pw@localhost/v1", "a host", "https://localhost/v1"),
    ("message", "could not reach gpu-box.example.org/x, http://gpu.example.org.", "a host", None),
    ("message", "refused by 192.168.0.17", "a host", "refused by server.invalid"),
    ("command", "penny-bench run --json /home/me/out.json", "a path", "penny-bench run --json out.json"),
    ("model", "/data/models/tiny", "a path", "tiny"),
    ("model", "~/models/tiny", "a path", "tiny"),
    ("model", "C:\\Users\\me\\tiny", "a path", "tiny"),
]


@pytest.mark.parametrize(("field", "text", "what", "clean"), PRIVATE)
def test_private_parts_are_found_and_taken_out(field: str, text: str, what: str, clean: str | None) -> None:
    value = {"a": [{field: text}]}
    assert [(each.where, each.what) for each in findings(value)] == [(f"a[0].{field}", what)]
    done = cleaned(value)
    assert list(findings(done)) == []
    if clean is not None:
        assert done == {"a": [{field: clean}]}


HARMLESS = [
    {"command": "penny-bench run --url http://127.0.0.1:8000 --api-key ... --tokens 128 --prompt-tokens 64"},
    {"source": "sglang /metrics"},
    {"request_format": "/v1/chat/completions"},
    {"model": "Qwen/Qwen3.8-27B-FP8"},
    {"unit": "tok/s", "label": "and/or ~ 1/2"},
    {"version": "1.2.3.4", "driver": "610.57.04"},
    {"url": "http://[::1]:8000/v1"},
    {"text": {"content": "cat /home/user/x; see https://example.org and 8.8.8.8"}},
    {"api_key": "", "tokens": "128", "key": "ttft_p50"},
]


@pytest.mark.parametrize("value", HARMLESS)
def test_harmless_parts_stay(value: dict[str, Any]) -> None:
    assert list(findings(value)) == []
    assert cleaned(value) == value


def test_a_key_in_what_a_model_said_is_still_a_key() -> None:
    value = {"text": {"content": "it is hf_abcdefghijklmnopqrstuvwx"}}
    assert [each.where for each in findings(value)] == ["text.content"]


def test_the_server_is_found_by_name_in_messages() -> None:
    value = document()
    value["server"]["url"] = "http://gpubox:8000/v1"
    value["notes"] = ["Could not connect to gpubox.", f"On {socket.gethostname()}."]
    hosts = hosts_of(value)
    assert "gpubox" in hosts
    done = cleaned(value, hosts)
    assert done["notes"][0] == "Could not connect to server.invalid."
    assert done["server"]["url"] == "http://server.invalid:8000/v1"
    assert "notes[0]" in [each.where for each in findings(value, hosts=hosts)]


def test_private_parts_are_refused_or_taken_out_of_the_copy(tmp_path: Path) -> None:
    path = write(
        tmp_path, "run.json", document(command="penny-bench run --url http://10.0.0.9:80 --json /srv/x")
    )
    with pytest.raises(BenchError, match="holds something private: a host in command; a path in command"):
        pack([path], About(), "0.1.0")
    data = pack([path], About(), "0.1.0", redact=True)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        value = json.loads(archive.read("runs/run.json"))
        readme = archive.read("README.md").decode()
    assert value["command"] == "penny-bench run --url http://server.invalid:80 --json x"
    assert manifest["files"][1]["original_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert "10.0.0.9" not in readme
    assert "No licence was given" in readme
    assert check(data).faults == ()


def test_what_is_no_whole_result_is_refused(tmp_path: Path) -> None:
    short = copy.deepcopy(document())
    del short["summary"]
    with pytest.raises(BenchError, match=r"no whole penny-bench/run/1 document: summary: Field required"):
        pack([write(tmp_path, "a.json", short)], About(), "0.1.0")
    decode = {"schema": "penny-bench/decode/1", "command": "x"}
    with pytest.raises(BenchError, match="it lacks started, client"):
        pack([write(tmp_path, "b.json", decode)], About(), "0.1.0")
    with pytest.raises(BenchError, match="schema 'other/1'; expected"):
        pack([write(tmp_path, "c.json", {"schema": "other/1"})], About(), "0.1.0")
    with pytest.raises(BenchError, match="Could not read"):
        pack([tmp_path / "none.json"], About(), "0.1.0")
    same = write(tmp_path, "d.json", document())
    (tmp_path / "sub").mkdir()
    with pytest.raises(BenchError, match="the same result as one before it"):
        pack([same, write(tmp_path / "sub", "d.json", document())], About(), "0.1.0")


def test_names_that_come_twice_get_a_number(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    paths = [
        write(tmp_path, "run.json", document()),
        write(tmp_path / "x", "run.json", document(notes=["other"])),
    ]
    found = check(pack(paths, About(), "0.1.0")).manifest
    assert found is not None
    assert [part.path for part in found.files] == ["README.md", "runs/run-2.json", "runs/run.json"]


def invoke(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(submit)
    return CliRunner().invoke(app, list(arguments))


def test_the_command_packs_and_verifies(tmp_path: Path) -> None:
    run, out = write(tmp_path, "run.json", document()), tmp_path / "s.zip"
    done = invoke(str(run), "--out", str(out), "--name", "Me", "--license", "CC0-1.0")
    assert done.exit_code == 0, done.output
    assert hashlib.sha256(out.read_bytes()).hexdigest() in done.stdout
    assert "nobody may publish" not in done.stdout
    good = invoke("--check", str(out))
    assert good.exit_code == 0
    assert "s.zip is whole: 1 results, by Me, CC0-1.0" in good.stdout
    out.write_bytes(changed(out.read_bytes(), edit("README.md", b"Me", b"You")))
    bad = invoke("--check", str(out))
    assert bad.exit_code == 1
    assert "s.zip: README.md was changed" in bad.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Give results and --out"),
        (["run.json"], "Give results and --out"),
        (["run.json", "--out", "s.zip", "--license", "MIT"], "--license is 'MIT'; use CC0-1.0 or CC-BY-4.0"),
        (["run.json", "--out", "s.zip", "--name", "x" * 101], "--name has 101 characters; give at most 100"),
        (["run.json", "--out", "s.zip", "--hardware-note", "on /home/me/pc"], "--hardware-note holds a path"),
        (["run.json", "--check", "s.zip"], "leave the results and --out away"),
        (["--check", "none.zip"], "Could not read none.zip"),
        (["run.json", "--out", "none/s.zip"], "correct --out"),
    ],
)
def test_the_command_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "run.json", document())
    found = invoke(*arguments)
    assert isinstance(found.exception, BenchError)
    assert sentence in str(found.exception)
    assert not (tmp_path / "s.zip").exists()
