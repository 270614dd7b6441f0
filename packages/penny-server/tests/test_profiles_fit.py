"""Launches against the machine, this version of ours and the checkpoint: refused before anything starts."""

from __future__ import annotations

import json
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from penny_models import tiny
from penny_server.cli.run import run
from penny_server.errors import PennyError
from penny_server.profiles import Launch, Surroundings, load, load_all, parse_overrides, resolve
from penny_server.profiles.planned import PLANNED
from penny_server.profiles.rules import Case, check_fraction, check_gpus, check_model
from penny_server.profiles.rules.machine import static_room
from penny_server.profiles.rules.model import reach
from penny_server.serving.choose import choose_device, runs_on
from penny_server.serving.fit import check_fit
from penny_server.serving.gpu import Gpu
from penny_server.sglang.registry import features

HERE = Surroundings(Path("/standin"), threads=1)
GIB = 2**30
PRO_6000 = Gpu("NVIDIA RTX PRO 6000", "12.0", 97_887 * 2**20)


def launch_of(profile: str, *settings: str, device: str = "cuda") -> Launch:
    return resolve(load(profile), device, Path("/m"), HERE, parse_overrides(settings))  # type: ignore[arg-type]


def checkpoint(path: Path, template: str = "", **text: object) -> Path:
    path.mkdir(parents=True)
    fields = {
        "full_attention_interval": 4,
        "linear_num_key_heads": 2,
        "max_position_embeddings": 262144,
        **text,
    }
    fields = {key: value for key, value in fields.items() if value is not None}
    (path / "config.json").write_text(json.dumps({"model_type": "qwen4_exp", "text_config": fields}))
    (path / "chat_template.jinja").write_text(template)
    return path


def check(folder: Path, profile: str = "flash-next", *settings: str) -> None:
    # The template is a file that is not there yet; without it the checkpoint's own holds.
    launch = launch_of(profile, "chat_template=", *settings)
    check_model(Case(launch.settings, launch.options, "cuda", launch.compute_capability), folder)


@pytest.mark.parametrize("parser", ["qwen25", "hermes", "qwen"])
def test_case_la_05_parser_that_cannot_read_what_the_template_makes_the_model_write(
    tmp_path: Path, parser: str
) -> None:
    folder = checkpoint(tmp_path / "m", "{{ '<tool_call>\\n<function=' + name + '>' }}")
    with pytest.raises(PennyError, match=f"tool_call_parser is {parser}.*<function=NAME>") as caught:
        check(folder, "flash-next", f"tool_call_parser={parser}")
    assert caught.value.exit_code == 2
    assert caught.value.hint == "Set tool_call_parser to qwen3_coder."
    check(folder)


def test_template_inside_the_tokenizer_config(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "m")
    (folder / "chat_template.jinja").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "<function=x>"}))
    with pytest.raises(PennyError, match="tool_call_parser is hermes"):
        check(folder, "flash-next", "tool_call_parser=hermes")


def test_reach_of_positions() -> None:
    native = {"max_position_embeddings": 262144}
    yarn = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 262144}
    assert reach(native, {}) == 262144
    assert reach(native, {"text_config": {"rope_parameters": yarn}}) == 524288
    assert reach({**native, "rope_scaling": {"type": "yarn", "factor": 4}}, {}) == 1048576
    assert reach({}, {}) is None


def test_context_above_yarns_reach(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "m")
    check(folder)
    with pytest.raises(PennyError) as caught:
        check(folder, "flash-next", "context_length=1Mi")
    assert caught.value.exit_code == 2
    assert caught.value.message == (
        "context_length is 1,048,576, and the positions of this checkpoint reach 524,288 with these settings."
    )
    assert "set yarn_factor to 4 or more" in caught.value.hint
    check(folder, "flash-next", "context_length=1Mi", "yarn_factor=4")


def test_sparse_index_limits_the_draft(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "m", indexer_compress_ratio=4)
    check(folder)
    with pytest.raises(PennyError, match="takes at most 4: one group of keys"):
        check(folder, "flash-next", "speculative_num_draft_tokens=5")
    with pytest.raises(PennyError, match="enable_mixed_chunk cuts prefill chunks"):
        check(folder, "flash-next", "enable_mixed_chunk=true")


def test_config_without_full_attention_interval(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "m", full_attention_interval=None)
    with pytest.raises(
        PennyError, match="has no full_attention_interval, which SGLang has no default for"
    ) as caught:
        check(folder)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_unreadable_checkpoint(tmp_path: Path, content: str | None) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    if content is not None:
        (folder / "config.json").write_text(content)
    with pytest.raises(PennyError, match=r"config\.json") as caught:
        check(folder)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("name", ["chat_template", "speculative_adaptive_config"])
def test_files_that_are_not_there(tmp_path: Path, name: str) -> None:
    folder = checkpoint(tmp_path / "m")
    asked = [f"{name}={tmp_path}/absent.jinja", "speculative_adaptive=true"]
    with pytest.raises(PennyError, match=f"{name} is .*absent.jinja, and there is no such file") as caught:
        check(folder, "flash-next", *asked)
    assert caught.value.exit_code == 2


def test_draft_of_another_size(tmp_path: Path) -> None:
    target = checkpoint(tmp_path / "m", hidden_size=5120)
    draft = tmp_path / "d"
    draft.mkdir()
    (draft / "config.json").write_text(json.dumps({"hidden_size": 2560, "dflash_config": {"block_size": 8}}))
    with pytest.raises(PennyError, match="hidden states of 2,560 values, and the model has 5,120") as caught:
        check(target, "qwen38-27b-dflash2", f"speculative_draft_model_path={draft}")
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("dtype", ["float32", "float16", "half"])
def test_flash_next_in_another_dtype_needs_the_feature_for_tests(tmp_path: Path, dtype: str) -> None:
    folder = checkpoint(tmp_path / "m")
    launch = launch_of("tiny-next", f"dtype={dtype}", device="cpu")
    asked = Case(launch.settings, launch.options, "cpu", None, launch.features)
    with pytest.raises(
        PennyError, match=f"dtype is {dtype}, and SGLang keeps parts .* in bfloat16"
    ) as caught:
        check_model(asked, folder)
    assert (caught.value.exit_code, caught.value.hint) == (2, "Set dtype to bfloat16.")
    check_model(replace(asked, features=(*launch.features, "next-float32")), folder)
    for settings in (launch_of("tiny-next", device="cpu").settings, {"dtype": "auto"}, {}):
        check_model(replace(asked, settings=settings), folder)


def test_the_feature_for_tests_is_in_no_profile() -> None:
    assert "next-float32" in features()
    for profile in load_all():
        of_devices = [f for device in profile.devices for f in profile.section(device).features]
        assert "next-float32" not in {*profile.features, *of_devices, *profile.needs}


def test_the_tiny_checkpoint_passes() -> None:
    launch = launch_of("tiny-27b", device="cpu")
    check_model(Case(launch.settings, launch.options, "cpu", None), Path(tiny.path("tiny-27b")))


def test_gpus() -> None:
    section = load("flash-next").section("cuda")
    check_gpus("flash-next", section, [PRO_6000], 1)
    check_gpus("flash-next", section, [PRO_6000, PRO_6000], 2)
    check_gpus("flash-next", section, [Gpu("unknown memory", "12.0")], 1)
    refusals = {
        "tp_size is 2, and this machine has 1 GPU that it may use.": ([PRO_6000], 2),
        "with compute capability 12.0, and NVIDIA GB10 has 12.1.": (
            [Gpu("NVIDIA GB10", "12.1", 128 * GIB)],
            1,
        ),
        "needs 94 GiB of GPU memory, and RTX 5090 has 32.0 GiB.": ([Gpu("RTX 5090", "12.0", 32 * GIB)], 1),
        "and A4000 has 8.6.": ([PRO_6000, Gpu("A4000", "8.6", 16 * GIB)], 2),
    }
    for message, (gpus, tp_size) in refusals.items():
        with pytest.raises(PennyError) as caught:
            check_gpus("flash-next", section, gpus, tp_size)
        assert caught.value.exit_code == 3
        assert message in caught.value.message


def test_a_card_with_too_little_memory_is_named_before_anything_else() -> None:
    small = Gpu("NVIDIA GeForce RTX 5090", "12.0", 32 * GIB)
    assert runs_on(load("flash-next"), [small]) is None
    assert runs_on(load("flash-next"), [PRO_6000]) == "cuda"
    with pytest.raises(PennyError) as caught:
        choose_device(load("flash-next"), "auto", [small], [])
    assert caught.value.exit_code == 3
    assert caught.value.message == (
        "The profile flash-next needs an NVIDIA GPU with compute capability 12.0 and 94 GiB of memory, and this "
        "machine has NVIDIA GeForce RTX 5090 with compute capability 12.0 and 32.0 GiB."
    )


def test_unbuilt_features_are_refused_by_name_and_can_be_left_out() -> None:
    profile = load("flash-next-frspec")
    launch = resolve(profile, "cuda", Path("/m"), HERE)
    with pytest.raises(PennyError) as caught:
        check_fit(profile, launch, [PRO_6000])
    assert caught.value.exit_code == 3
    for name in ("recover-ssm", "cache-store", "chat-template"):
        assert name in caught.value.message
    assert caught.value.hint.endswith("--without recover-ssm,cache-store,chat-template")
    without = caught.value.hint.rpartition(" ")[2].split(",")
    plain = resolve(profile, "cuda", Path("/m"), HERE, without=without)
    check_fit(profile, plain, [PRO_6000])
    assert plain.needs == ()
    assert (
        plain.env["PENNY_FEATURES"]
        == "progress,pools,requests,drain,effort,penalties,spec-penalties,spec-guard,token-map"
    )
    gone = {"hicache_storage_backend", "chat_template", "max_total_tokens"}
    assert not gone & set(plain.settings)
    assert plain.settings["mem_fraction_static"] == 0.97
    with pytest.raises(
        PennyError, match=r"--without cache-stor: the profile .* does not need that"
    ) as caught:
        resolve(profile, "cuda", Path("/m"), HERE, without=["cache-stor"])
    assert caught.value.hint == "Did you mean 'cache-store'?"


@pytest.mark.parametrize(
    ("setting", "need"),
    [
        ("media_device=cuda:1", "media-device"),
        ("online_fp8=true", "online-fp8"),
    ],
)
def test_options_that_need_an_unbuilt_feature(setting: str, need: str) -> None:
    profile = load("flash-next")
    assert need in launch_of("flash-next", setting).needs
    plain = resolve(profile, "cuda", Path("/m"), HERE, parse_overrides([setting]), without=[need])
    assert need not in plain.needs
    assert plain.settings == launch_of("flash-next").settings


def test_features_of_profiles_are_built_or_planned() -> None:
    assert not set(PLANNED) & set(features())
    for profile in load_all():
        named = {*profile.features, *(f for d in profile.devices for f in profile.section(d).features)}
        assert named <= set(features()), profile.name
        assert set(profile.needs) <= set(PLANNED), profile.name


def test_serve_refuses_an_unreadable_checkpoint(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tiny.path("tiny-27b"), copy)
    (copy / "config.json").write_text("{")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    assert run(["serve", "tiny-27b", "--device", "cpu", "--port", port, "--model", str(copy)]) == 4


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["flash-next", "--set", "max_total_tokens=1000001"], "not a multiple of the page of 64 tokens"),
        (["flash-next", "--set", "max_running_requests=8"], "about 6 each, 48 in all"),
        (["flash-next", "--set", "speculative_num_draft_tokens=0"], "takes 1 or more"),
        (["flash-next", "--set", "fp4-gemm-backend=flashinfer_trtllm"], "needs an SM100 GPU"),
        (["flash-next", "--without", "media-device"], "does not need that"),
        (["flash-next", "--set", "tp_size=4"], "is made for 1, 2 GPUs"),
        (["flash-next", "--set", "ple_backend=nvme"], "ple_nvme_model is not set"),
    ],
)
def test_bad_input_from_the_command_line(
    args: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    assert run(["serve", *args, "--dry-run"]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


def test_case_ms_03_static_fraction_too_small_for_the_weights() -> None:
    gpu = Gpu("80 GiB", "9.0", 80 * GIB)
    weights = (80 - 20) * GIB
    assert [static_room(80, 60, f) for f in (0.7, 0.75, 0.9)] == pytest.approx([-4.0, 0.0, 12.0])
    for fraction in (0.7, 0.75):
        with pytest.raises(PennyError, match="leaves no room for a KV pool") as caught:
            check_fraction(fraction, weights, gpu)
        assert caught.value.exit_code == 2
        assert caught.value.hint == "Raise mem_fraction_static above 0.75."
    check_fraction(0.9, weights, gpu)
    check_fraction(None, weights, gpu)
