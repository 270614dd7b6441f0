"""Settings in layers: profile, penny.toml of the user and of the folder, environment, flags; the later wins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penny_server.cli.run import run
from penny_server.errors import PennyError
from penny_server.profiles import Surroundings, load, parse_overrides, resolve
from penny_server.profiles.loader import parse
from penny_server.profiles.settings import gather, user_file

USER = '[all]\nmax_running_requests = 1\npage_size = 128\nhost = "0.0.0.0"\n[profile.tiny-27b]\nport = 9000\n'
FOLDER = "[profile.tiny-27b]\nmax_running_requests = 2\nenv = { ODD = 'from the folder', LAST = 1 }\n"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home and an empty folder to work in."""
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def write_both() -> None:
    user_file().parent.mkdir(parents=True)
    user_file().write_text(USER)
    Path("penny.toml").write_text(FOLDER)


def shown(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, dict]:
    capsys.readouterr()
    assert run(["profiles", "show", *args, "--origin", "--json"]) == 0
    return {row["key"]: row for row in json.loads(capsys.readouterr().out)}


def test_the_later_wins_and_says_where_it_is_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = "max_running_requests"
    assert shown(capsys, "tiny-27b")[row] == {
        "key": row, "value": "8", "origin": "profile tiny-27b", "what": "--max-running-requests"
    }  # fmt: skip
    write_both()
    found = shown(capsys, "tiny-27b")
    assert (found[row]["value"], found[row]["origin"]) == ("2", "penny.toml")
    assert (found["page_size"]["value"], found["page_size"]["origin"]) == ("128", str(user_file()))
    assert found["env.ODD"]["value"] == "from the folder"
    assert found["env.LAST"]["value"] == "1"
    monkeypatch.setenv("PENNY_MAX_RUNNING_REQUESTS", "3")
    found = shown(capsys, "tiny-27b")
    assert (found[row]["value"], found[row]["origin"]) == ("3", "PENNY_MAX_RUNNING_REQUESTS")
    found = shown(capsys, "tiny-27b", "--set", "max_running_requests=4")
    assert (found[row]["value"], found[row]["origin"]) == ("4", "--set")


def test_places_come_from_files_and_environment_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_both()
    monkeypatch.setenv("PENNY_MODEL", "/from/environment")
    assert run(["serve", "tiny-27b", "--dry-run", "--json"]) == 0
    resolved = json.loads(capsys.readouterr().out)
    assert resolved["checkpoint"] == "/from/environment"
    assert resolved["args"][4:8] == ["--host", "0.0.0.0", "--port", "9000"]
    assert run(["serve", "tiny-27b", "--dry-run", "--json", "--port", "9001", "--model", "/flag"]) == 0
    resolved = json.loads(capsys.readouterr().out)
    assert resolved["checkpoint"] == "/flag"
    assert resolved["args"][4:8] == ["--host", "0.0.0.0", "--port", "9001"]


def test_reasoning_effort_from_the_environment_as_in_the_reference(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENNY_REASONING_EFFORT", "max")
    found = shown(capsys, "flash-next")["default_chat_template_kwargs"]
    assert json.loads(found["value"]) == {
        "enable_thinking": True, "preserve_thinking": True, "reasoning_effort": "xhigh"
    }  # fmt: skip
    assert found["origin"] == "reasoning_effort (PENNY_REASONING_EFFORT)"


@pytest.mark.parametrize(
    ("effort", "expected"),
    [
        ("none", {"enable_thinking": False}),
        ("minimal", {"enable_thinking": True, "reasoning_effort": "low"}),
        ("low", {"enable_thinking": True, "reasoning_effort": "low"}),
        ("medium", {"enable_thinking": True, "reasoning_effort": "medium"}),
        ("high", {"enable_thinking": True, "reasoning_effort": "xhigh"}),
        ("xhigh", {"enable_thinking": True, "reasoning_effort": "xhigh"}),
        ("max", {"enable_thinking": True, "reasoning_effort": "xhigh"}),
    ],
)
def test_reasoning_efforts(effort: str, expected: dict) -> None:
    person = gather("flash-next", {"PENNY_REASONING_EFFORT": effort}, ())
    launch = resolve(load("flash-next"), "cuda", Path("/m"), Surroundings(Path("/s"), 1), person.layers)
    assert launch.settings["default_chat_template_kwargs"] == {"preserve_thinking": True, **expected}


def test_an_option_goes_into_a_json_argument_of_the_same_layer() -> None:
    kwargs = 'default_chat_template_kwargs={"add_vision_id": true}'
    asked = parse_overrides([kwargs, "reasoning_effort=low"])
    launch = resolve(load("flash-next"), "cuda", Path("/m"), Surroundings(Path("/s"), 1), asked)
    assert launch.settings["default_chat_template_kwargs"] == {
        "add_vision_id": True, "enable_thinking": True, "reasoning_effort": "low"
    }  # fmt: skip


def test_media_ple_cache_and_build_options() -> None:
    environ = {"PENNY_MEDIA_DEVICE": "cuda:0", "PENNY_CACHE_DIR": "/c/", "PENNY_BUILD_JOBS": "2"}
    environ |= {"PENNY_PLE_BACKEND": "nvme", "PENNY_PLE_NVME_MODEL": "/o", "PENNY_BENCH_X": "1"}
    person = gather("flash-next", environ, ())
    launch = resolve(load("flash-next"), "cuda", Path("/m"), Surroundings(Path("/s"), 1), person.layers)
    assert launch.settings["image_processor_backend"] == "torchvision"
    assert "--no-ple-offload-embedding" in launch.args
    assert "ple-nvme" in launch.needs
    assert launch.env["HF_HOME"] == "/c/huggingface"
    assert launch.env["XDG_CACHE_HOME"] == "/c"
    assert launch.env["SGLANG_JIT_CACHE_DIR"] == "/c/sglang/jit"
    assert launch.env["MAX_JOBS"] == launch.env["TORCHINDUCTOR_COMPILE_THREADS"] == "2"


def test_two_gpus() -> None:
    person = gather("flash-next-frspec", {"PENNY_TP_SIZE": "2"}, ())
    launch = resolve(
        load("flash-next-frspec"), "cuda", Path("/m"), Surroundings(Path("/s"), 1), person.layers
    )
    assert launch.settings["tp_size"] == 2
    assert launch.settings["mem_fraction_static"] == 0.88
    assert "--disable-custom-all-reduce" in launch.args
    assert "max_total_tokens" not in launch.settings
    assert "PYTORCH_CUDA_ALLOC_CONF" not in launch.env


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[all]\npage_sise = 3\n", "[all] page_sise: there is no such setting. Did you mean 'page_size'?"),
        ("[al]\npage_size = 3\n", "'al' is not a table of a settings file. Did you mean 'all'?"),
        ("[profile.tiny27b]\n", "there is no profile 'tiny27b'. Did you mean 'tiny-27b'?"),
        ("[all]\nport = 99999\n", "port takes a port from 1 to 65535, and got 99999"),
        ("[all]\ndevice = 'gpu'\n", "device does not take 'gpu'"),
        ("[all]\nreasoning_effort = 'hgih'\n", "takes one of none, minimal"),
        ("[all\n", "penny.toml cannot be read"),
        ("all = 3\n", "[all] is not a table"),
    ],
)
def test_bad_files(text: str, message: str) -> None:
    Path("penny.toml").write_text(text)
    with pytest.raises(PennyError) as caught:
        gather("tiny-27b", {})
    assert caught.value.exit_code == 2
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "PENNY_MAX_TOTAL_TOKEN",
            "3",
            "PENNY_MAX_TOTAL_TOKEN is no setting. Did you mean 'PENNY_MAX_TOTAL_TOKENS'?",
        ),
        ("PENNY_PAGE_SIZE", "many", "takes a whole number, and got 'many'"),
        ("PENNY_PORT", "x", "takes a port"),
    ],
)
def test_bad_environment(name: str, value: str, message: str) -> None:
    with pytest.raises(PennyError) as caught:
        gather("tiny-27b", {name: value})
    assert caught.value.exit_code == 2
    assert message in caught.value.message


def test_diff_of_two_profiles(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profiles", "diff", "flash-next-frspec", "flash-next-c6", "--json"]) == 0
    found = {row.pop("setting"): row for row in json.loads(capsys.readouterr().out)}
    assert {key: tuple(row.values()) for key, row in found.items() if key not in ("needs", "features")} == {
        "max_running_requests": ("4", "6"),
        "max_mamba_cache_size": ("24", "36"),
        "max_total_tokens": ("824384", "1034176"),
        "online_fp8": (None, "true"),
    }
    assert run(["profiles", "diff", "tiny-27b", "tiny-27b"]) == 0
    assert run(["profiles", "show", "tiny-2b"]) == 2


def test_profiles_extend_each_other(tmp_path: Path) -> None:
    profile = parse(
        'name = "mine"\nsummary = "mine"\nextends = "flash-next-c6"\n[sglang]\npage_size = 32\n', "x"
    )
    launch = resolve(profile, "cuda", Path("/m"), Surroundings(Path("/s"), 1))
    assert launch.settings["page_size"] == 32
    assert launch.origins["sglang.page_size"] == "profile mine"
    assert launch.origins["sglang.max_running_requests"] == "profile flash-next-c6"
    assert launch.origins["sglang.dtype"] == "profile flash-next"
    with pytest.raises(PennyError, match="There is no profile 'flash-nxt'"):
        parse('name = "mine"\nextends = "flash-nxt"\n', "x")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "[options]\nreasoning_efort = 'low'\n",
            "'reasoning_efort' is not an option. Did you mean 'reasoning_effort'",
        ),
        ("[options]\nmedia_device = 'gpu'\n", "takes cpu or cuda:N"),
        ("[needs.cache-stor]\n", "no planned feature 'cache-stor'. Did you mean 'cache-store'"),
        ("[needs.cache-store.sglang]\ntoken_map = 'x'\n", "'token_map' is not an argument of SGLang"),
        ("[tp.2]\nsglang = { port = 3 }\n", "port is set by penny itself"),
        ("[cuda]\nvram_gib = -1\n", "cuda.vram_gib"),
    ],
)
def test_bad_tables_of_a_profile(lines: str, message: str) -> None:
    with pytest.raises(PennyError) as caught:
        parse(f'name = "mine"\nsummary = "mine"\nextends = "flash-next"\n{lines}', "mine.toml")
    assert caught.value.exit_code == 2
    assert message in caught.value.message


def test_draft_is_asked_for() -> None:
    from penny_server.cli.resolving import NO_DRAFT, Asked, launch_of

    profile = "qwen38-27b-dflash2"
    assert launch_of(Asked(profile, dry=True))[1].settings["speculative_draft_model_path"] == str(NO_DRAFT)
    given = launch_of(Asked(profile, draft=Path("/d"), dry=True))[1]
    assert given.settings["speculative_draft_model_path"] == "/d"
    assert given.env["PENNY_DRAFT_PATH"] == "/d"
    none = launch_of(Asked(profile, settings=["speculative_algorithm="], dry=True))[1]
    assert "speculative_draft_model_path" not in none.settings


def test_a_start_needs_the_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    from penny_server.cli import resolving
    from penny_server.serving.gpu import Gpu

    monkeypatch.setattr(resolving, "usable_gpus", lambda: (Gpu("NVIDIA RTX PRO 6000", "12.0"),))
    with pytest.raises(PennyError, match="without the checkpoint of its draft model") as caught:
        resolving.launch_of(resolving.Asked("qwen38-27b-dflash2", model=Path("/m")))
    assert caught.value.exit_code == 2
    assert caught.value.hint.endswith("--draft FOLDER")
