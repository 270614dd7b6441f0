"""The penny command as a person runs it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from penny_models import tiny
from penny_server.cli.run import run
from penny_server.errors import PennyError
from penny_server.profiles import load, load_all
from penny_server.serving import choose, gpu
from penny_server.serving.checks import check_integration
from penny_server.serving.gpu import Gpu
from penny_server.sglang import registry

PENNY = [sys.executable, "-c", "from penny_server.cli import main; main()"]
H200 = Gpu("NVIDIA H200", "9.0")
PRO_6000 = Gpu("NVIDIA RTX PRO 6000", "12.0")


def penny(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PENNY, *args],
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200", **env},
        stdin=subprocess.DEVNULL,
        check=False,
    )


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.mark.parametrize(
    "args", [["--help"], ["serve", "--help"], ["chat", "--help"], ["version"], ["profiles"]]
)
def test_imports_nothing_heavy(args: list[str]) -> None:
    script = (
        "import sys\nfrom penny_server.cli.run import run\n"
        f"code = run({args!r})\n"
        "print(code, sorted({'torch', 'sglang', 'transformers', 'numpy', 'triton'} & set(sys.modules)))"
    )
    printed = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert printed.splitlines()[-1] == "0 []"


def test_version_as_json() -> None:
    found = json.loads(penny("version", "--json").stdout)
    assert found["sglang"] == importlib.metadata.version("sglang")
    assert found["torch"] == importlib.metadata.version("torch")
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {
        "penny-server",
        "penny-models",
        "penny-kernels",
        "penny-spec",
        "penny-cache",
        "penny-bench",
    } < set(found)


def test_profiles_as_json() -> None:
    listed = {p["name"]: p for p in json.loads(penny("profiles", "--json").stdout)}
    assert listed["tiny-27b"]["here"] == "cpu"
    assert listed["tiny-27b"]["devices"] == ["cpu", "cuda"]
    assert listed["qwen38-27b"]["here"] is None


def test_seams_as_json() -> None:
    result = penny("seams", "--json")
    report = json.loads(result.stdout)
    assert result.returncode == 0
    assert report
    assert {seam["state"] for seam in report} == {"fits"}
    assert {"name", "feature", "target", "kind", "summary", "expected", "found"} <= set(report[0])


def test_seams_that_changed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import penny_server.sglang as integration

    (first, *_) = integration.seams_report()
    broken = type(first)(
        first.name, first.feature, first.target, first.kind, first.summary, "aaaa", "bbbb", "changed"
    )
    monkeypatch.setattr(integration, "seams_report", lambda run_dir: [broken])
    monkeypatch.setenv("COLUMNS", "300")
    assert run(["seams"]) == 3
    assert f"{first.name}: expected digest aaaa, found bbbb for {first.target}" in capsys.readouterr().out


def test_a_changed_seam_stops_serve_before_anything_is_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    real = registry.all_seams()
    first = replace(next(seam for seam in real if seam.feature == "cpu"), digest="0123456789abcdef")
    changed = tuple(first if seam.name == first.name else seam for seam in real)
    monkeypatch.setattr(registry, "all_seams", lambda: changed)
    assert run(["serve", "tiny-27b", "--device", "cpu", "--log-dir", str(tmp_path)]) == 3
    said = "".join(capsys.readouterr())
    assert first.name in said
    assert "expected digest 0123456789abcdef, found " in said
    assert not list(tmp_path.iterdir())


def test_tls_settings_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "tiny-27b", "--dry-run", "--set", "ssl_certfile=cert.pem"]) == 2
    assert "penny serve speaks plain HTTP" in "".join(capsys.readouterr())


def test_dry_run_prints_the_command(tmp_path: Path) -> None:
    result = penny("serve", "tiny-27b", "--dry-run", "--model", str(tmp_path), "--set", "dtype=float32")
    assert result.returncode == 0
    (line,) = result.stdout.splitlines()
    assert f"-m penny_server.sglang.launch --model-path {tmp_path} --device cpu" in line
    assert "SGLANG_MAMBA_CONV_DTYPE=float32" in line
    assert "--dtype float32" in line


def test_dry_run_for_a_gpu_needs_no_gpu(tmp_path: Path) -> None:
    result = penny("serve", "tiny-27b", "--dry-run", "--device", "cuda", "--model", str(tmp_path))
    assert result.returncode == 0
    assert "--device cuda" in result.stdout
    assert "SGLANG_USE_CPU_ENGINE" not in result.stdout


def test_dry_run_as_json_agrees(tmp_path: Path) -> None:
    args = ("serve", "tiny-27b", "--dry-run", "--model", str(tmp_path))
    resolved = json.loads(penny(*args, "--json").stdout)
    assert resolved["command"] == penny(*args).stdout.strip()
    assert resolved["checkpoint"] == str(tmp_path)
    assert resolved["url"] == "http://127.0.0.1:8001"
    assert resolved["args"][:4] == ["--model-path", str(tmp_path), "--device", "cpu"]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["serve", "tiny27b"], 2, "There is no profile 'tiny27b'. Did you mean 'tiny-27b'?"),
        (["serve", "tiny-27b", "--set", "pagesize=3"], 2, "Did you mean 'page_size'?"),
        (
            ["serve", "qwen38-27b"],
            3,
            "needs an NVIDIA GPU with compute capability 12.0, and this machine has no",
        ),
        (
            ["serve", "qwen38-27b"],
            3,
            "These profiles run here: tiny-27b, tiny-27b-dflash2, tiny-27b-nextn, tiny-next, tiny-next-frspec.",
        ),
        (
            ["serve", "qwen38-27b", "--device", "cpu"],
            2,
            "no settings for the device cpu; it is made for: cuda",
        ),
        (["serve", "tiny-27b", "--port", "99999"], 2, "65535"),
        (["serve", "tiny-27b", "--device", "gpu"], 2, "'gpu'"),
        (["serv"], 2, "serv"),
    ],
)
def test_bad_input(args: list[str], code: int, message: str) -> None:
    result = penny(*args)
    assert result.returncode == code
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_bad_input_as_json() -> None:
    result = penny("serve", "tiny27b", "--json")
    failed = json.loads(result.stdout)
    assert result.returncode == failed["exit_code"] == 2
    assert failed["message"] == "There is no profile 'tiny27b'. Did you mean 'tiny-27b'?"


def test_debug_shows_where() -> None:
    result = penny("serve", "tiny27b", "--debug")
    assert result.returncode == 2
    assert "Traceback" in result.stderr
    assert "loader.py" in result.stderr


def test_checkpoint_that_is_not_one(tmp_path: Path) -> None:
    result = penny("serve", "tiny-27b", "--model", str(tmp_path / "absent"), "--port", "0")
    assert result.returncode == 2
    args = ("serve", "tiny-27b", "--port", free_port(), "--model", str(tmp_path / "absent"))
    result = penny(*args, XDG_STATE_HOME=str(tmp_path))
    assert result.returncode == 4, result.stderr
    assert str(tmp_path / "absent") in result.stderr.replace("\n", "")
    assert list(tmp_path.iterdir()) == []


def test_truncated_shard_is_found_before_anything_starts(tmp_path: Path) -> None:
    copy = tmp_path / "checkpoint"
    shutil.copytree(tiny.path("tiny-27b"), copy)
    shard = max(copy.glob("*.safetensors"), key=lambda file: file.stat().st_size)
    shard.chmod(0o600)
    os.truncate(shard, shard.stat().st_size - 100)
    state = tmp_path / "state"
    args = ("serve", "tiny-27b", "--port", free_port(), "--model", str(copy))
    result = penny(*args, XDG_STATE_HOME=str(state))
    assert result.returncode == 4
    assert shard.name in result.stderr
    assert not state.exists()


def test_unexpected_errors_are_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(name: str) -> str:
        raise ZeroDivisionError("of a kind nobody expected")

    monkeypatch.setattr("penny_server.cli.version.installed", broken)
    assert run(["version"]) == 1
    err = capsys.readouterr().err
    assert "ZeroDivisionError: of a kind nobody expected" in err
    assert "--debug" in err
    assert "Traceback" not in err


def test_ctrl_c_anywhere(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(name: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("penny_server.cli.version.installed", interrupted)
    assert run(["version"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_wrong_sglang_version(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "0.5.24" if name == "sglang" else real(name)
    )
    with pytest.raises(PennyError, match=r"0\.5\.23.*0\.5\.24") as caught:
        check_integration(("cpu",))
    assert caught.value.exit_code == 3


def test_gpu_that_does_not_fit() -> None:
    with pytest.raises(PennyError) as caught:
        choose.choose_device(load("qwen38-27b"), "auto", [H200], load_all())
    assert caught.value.exit_code == 3
    assert caught.value.message == (
        "The profile qwen38-27b needs an NVIDIA GPU with compute capability 12.0, "
        "and this machine has NVIDIA H200 with compute capability 9.0."
    )
    assert (
        caught.value.hint
        == "These profiles run here: tiny-27b, tiny-27b-dflash2, tiny-27b-nextn, tiny-next, tiny-next-frspec."
    )


def test_gpu_asked_for_without_one() -> None:
    with pytest.raises(PennyError, match="needs an NVIDIA GPU with CUDA, and this machine has no") as caught:
        choose.choose_device(load("tiny-27b"), "cuda", [], load_all())
    assert caught.value.hint == "Run it without a GPU: penny serve tiny-27b --device cpu"


def test_choice_of_the_device() -> None:
    tiny, big = load("tiny-27b"), load("qwen38-27b")
    assert choose.choose_device(tiny, "auto", [], []) == "cpu"
    assert choose.choose_device(tiny, "auto", [H200], []) == "cuda"
    assert choose.choose_device(tiny, "cpu", [H200], []) == "cpu"
    assert choose.choose_device(big, "auto", [PRO_6000], []) == "cuda"


def test_profile_without_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(PennyError, match="comes without a checkpoint") as caught:
        choose.choose_checkpoint(load("qwen38-27b"), None)
    assert "--model" in caught.value.hint
    assert choose.choose_checkpoint(load("qwen38-27b"), tmp_path) == tmp_path


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, ["a", "b", "c"]),
        ("", []),
        ("-1", []),
        ("1", ["b"]),
        ("2,0", ["c", "a"]),
        ("0,7,1", ["a"]),
        ("GPU-bb", ["b"]),
    ],
)
def test_visible_gpus(monkeypatch: pytest.MonkeyPatch, visible: str | None, expected: list[str]) -> None:
    three = {"GPU-aa01": Gpu("a", "9.0"), "GPU-bb02": Gpu("b", "9.0"), "GPU-cc03": Gpu("c", "12.0")}
    monkeypatch.setattr(gpu, "_all_gpus", lambda: three)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [found.name for found in gpu.usable_gpus()] == expected
