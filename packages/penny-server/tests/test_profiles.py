"""Profiles: schema, --set, resolution, and the reading of SGLang's declared arguments."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from penny_server.errors import PennyError
from penny_server.profiles import (
    Launch,
    Overrides,
    Surroundings,
    load,
    load_all,
    names,
    parse_overrides,
    resolve,
)
from penny_server.profiles.flags import canonical, catalogue
from penny_server.profiles.loader import parse
from penny_server.profiles.schema import Device
from penny_server.sglang.seams import cpu_next

HERE = Surroundings(Path("/standin"), threads=1)

MINIMAL = """
name = "x"
summary = "an example"
model = { path = "/models/x" }
[sglang]
dtype = "float32"
[cpu]
"""


def resolved(
    device: Device = "cpu", *settings: str, port: int | None = None, host: str | None = None
) -> Launch:
    return resolve(load("tiny-27b"), device, Path("/m"), HERE, parse_overrides(settings), host, port)


def option(launch: Launch, name: str) -> str:
    return launch.args[launch.args.index(name) + 1]


def test_shipped_profiles_are_valid() -> None:
    assert set(names()) == {
        "tiny-27b",
        "tiny-27b-dflash2",
        "tiny-27b-nextn",
        "tiny-next",
        "tiny-next-frspec",
        "qwen38-27b",
        "flash-next",
        "flash-next-frspec",
        "flash-next-c6",
        "flash-next-1m",
        "qwen38-27b-dflash2",
        "swift-27b",
    }
    for profile in load_all():
        for device in profile.devices:
            served = resolve(profile, device, Path("/m"), HERE).model_name
            assert served in (profile.name, "pennyroyal")


def test_tiny_27b_on_a_cpu() -> None:
    launch = resolved("cpu")
    expected = (
        "--model-path /m --device cpu --host 127.0.0.1 --port 8001 --served-model-name tiny-27b "
        "--dtype bfloat16 --context-length 4096 --page-size 64 --mamba-radix-cache-strategy extra_buffer "
        "--max-mamba-cache-size 64 --max-total-tokens 16384 --max-running-requests 8 "
        "--chunked-prefill-size 2048 --reasoning-parser qwen3 --tool-call-parser qwen3_coder "
        "--grammar-backend xgrammar --constrained-json-disable-any-whitespace --sampling-backend pytorch "
        "--enable-metrics --enable-cache-report --attention-backend intel_amx "
        "--sleep-on-idle"
    )
    assert list(launch.args) == expected.split(" ")
    assert dict(launch.env) == {
        "HF_HUB_OFFLINE": "1",
        "SGLANG_MAMBA_CONV_DTYPE": "bfloat16",
        "SGLANG_USE_CPU_ENGINE": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "SGLANG_ENABLE_TORCH_INFERENCE_MODE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": "/standin",
        "PENNY_FEATURES": "progress,pools,requests,seeds,drain,penalties,cpu",
    }


def test_tiny_27b_on_a_gpu_has_nothing_of_the_cpu() -> None:
    launch = resolved("cuda")
    assert option(launch, "--device") == "cuda"
    assert option(launch, "--attention-backend") == "triton"
    assert launch.features == ("progress", "pools", "requests", "seeds", "drain", "penalties")
    assert not {"SGLANG_USE_CPU_ENGINE", "TORCHDYNAMO_DISABLE", "PYTHONPATH"} & set(launch.env)


def test_tiny_next_is_served_as_tiny_27b_with_drafts_is() -> None:
    for device, attention in (("cpu", "intel_amx"), ("cuda", "triton")):
        other = resolve(load("tiny-27b-nextn"), device, Path("/m"), HERE)
        launch = resolve(load("tiny-next"), device, Path("/m"), HERE)
        assert sorted(launch.args) == sorted(
            "tiny-next" if arg == other.profile else arg for arg in other.args
        )
        more = ("cpu-next",) if device == "cpu" else ()
        assert launch.features == (*other.features, *more)
        assert launch.env == {**other.env, "PENNY_FEATURES": ",".join(launch.features)}
        assert option(launch, "--page-size") == "64"
        # The base back end; that of the family's sparse attention is put in its place by SGLang.
        assert option(launch, "--attention-backend") == attention
        assert launch.asserts.backends["attention, *"] == "QwenSparseAttnBackend"
        plain = resolve(
            load("tiny-next"), device, Path("/m"), HERE, parse_overrides(["speculative_algorithm="])
        )
        assert not [arg for arg in plain.args if "speculative" in arg]
    cpu_seams = {seam.name for seam in cpu_next.SEAMS}
    asserted = resolve(load("tiny-next"), "cpu", Path("/m"), HERE).asserts.seams
    assert cpu_seams <= set(asserted)


def test_a_profile_of_ones_own_gets_what_every_cpu_server_needs(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'name = "mine"\nsummary = "mine"\nmodel = { path = "/m" }\n'
        '[cpu]\nfeatures = ["cpu"]\n[cpu.sglang]\nattention_backend = "intel_amx"\n'
    )
    launch = resolve(load(str(file)), "cpu", Path("/m"), Surroundings(standin=Path("/standin"), threads=1))
    assert launch.env["SGLANG_USE_CPU_ENGINE"] == "1"
    assert launch.env["PYTHONPATH"] == "/standin"


def test_convolution_state_follows_the_dtype() -> None:
    launch = resolved("cpu", "dtype=float32")
    assert option(launch, "--dtype") == "float32"
    assert launch.env["SGLANG_MAMBA_CONV_DTYPE"] == "float32"


def test_command_line_wins() -> None:
    settings = ("max_running_requests=3", "enable-metrics=false", "--mem-fraction-static=0.25", "page_size=")
    launch = resolved("cpu", *settings, port=9000, host="0.0.0.0")
    assert option(launch, "--max-running-requests") == "3"
    assert launch.args.count("--max-running-requests") == 1
    assert "--enable-metrics" not in launch.args
    assert option(launch, "--mem-fraction-static") == "0.25"
    assert "--page-size" not in launch.args
    assert option(launch, "--port") == "9000"
    assert option(launch, "--host") == "0.0.0.0"
    assert launch.url == "http://127.0.0.1:9000"


def test_values_of_every_kind() -> None:
    assert parse_overrides(["cuda_graph_bs_decode=[1, 2, 4]"]).sglang == {"cuda_graph_bs_decode": [1, 2, 4]}
    assert parse_overrides(["cuda_graph_bs_decode=2"]).sglang == {"cuda_graph_bs_decode": [2]}
    assert parse_overrides(["tensor-parallel-size=2"]).sglang == {"tp_size": 2}
    assert parse_overrides(["context_length=4k"]).sglang == {"context_length": "4k"}
    assert parse_overrides(["env.A=1", "env.B="]).env == {"A": "1", "B": None}
    text = parse_overrides(['json_model_override_args={"a": {"b": 1}}']).sglang["json_model_override_args"]
    assert json.loads(text) == {"a": {"b": 1}}
    launch = resolved("cuda", "cuda_graph_bs_decode=[1, 2, 4]", "enable_tf32_matmul=false")
    at = launch.args.index("--cuda-graph-bs-decode")
    assert launch.args[at + 1 : at + 4] == ("1", "2", "4")
    assert "--no-enable-tf32-matmul" in launch.args


def test_environment_from_the_command_line() -> None:
    launch = resolved("cpu", "env.OMP_NUM_THREADS=4", "env.HF_HUB_OFFLINE=", "env.EXTRA={threads}")
    assert launch.env["OMP_NUM_THREADS"] == "4"
    assert launch.env["EXTRA"] == "1"
    assert "HF_HUB_OFFLINE" not in launch.env


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("max_runing_requests=3", "'max_running_requests'"),
        ("max_running_requests", "expects key=value"),
        ("max_running_requests=many", "takes a whole number, and got 'many'"),
        ("max_running_requests=true", "takes a whole number, and got True"),
        ("mem_fraction_static=high", "takes a number"),
        ("enable_metrics=1", "takes true or false"),
        ("dtype=bfloat61", "Did you mean 'bfloat16'"),
        ("mamba_ssm_dtype=[1]", "takes one value"),
        ("port=3", "use --port instead"),
        ("model-path=/x", "use --model instead"),
        ("env.1X=3", "not the name of an environment variable"),
    ],
)
def test_bad_settings(setting: str, message: str) -> None:
    with pytest.raises(PennyError, match=message) as caught:
        parse_overrides([setting])
    assert caught.value.exit_code == 2


def test_unknown_profile_names_the_nearest() -> None:
    with pytest.raises(PennyError, match="Did you mean 'tiny-27b'"):
        load("tiny27b")


def test_profile_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(MINIMAL)
    profile = load(str(file))
    assert profile.name == "x"
    launch = resolve(profile, "cpu", Path("/models/x"), HERE)
    assert launch.args[-4:] == ("--served-model-name", "x", "--dtype", "float32")
    with pytest.raises(PennyError, match="cannot be read"):
        load(str(tmp_path / "absent.toml"))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("summary =", "sumary =", r"'sumary' is not known\. Did you mean 'summary'"),
        ("dtype =", "dtipe =", r"\[sglang\]: 'dtipe' is not an argument of SGLang\. Did you mean 'dtype'"),
        ('dtype = "float32"', "max_running_requests = true", "takes a whole number"),
        ('dtype = "float32"', "port = 3", "port is set by penny itself"),
        ("path =", "pth =", r"'model\.pth' is not known\. Did you mean 'path'"),
        ('{ path = "/models/x" }', "{ required = true, tiny = 'y' }", "exactly one of"),
        ("[cpu]", "", r"needs a \[cpu\] or a \[cuda\] section"),
        ("[cpu]", "[cpu]\nfeature = []", r"'cpu\.feature' is not known\. Did you mean 'features'"),
        ("[cpu]", "[cpu.env]\nX = 1", r"cpu\.env\.X"),
        ("[cpu]", "[defaults]\nport = 70000\n[cpu]", r"defaults\.port"),
        ('name = "x"', "", "'name' is missing"),
        ("[cpu]", "[cpu", "not valid TOML"),
    ],
)
def test_bad_profiles(before: str, after: str, message: str) -> None:
    assert before in MINIMAL
    with pytest.raises(PennyError, match=message) as caught:
        parse(MINIMAL.replace(before, after), "mine.toml")
    assert caught.value.exit_code == 2
    assert "mine.toml" in caught.value.message


def test_unknown_placeholder() -> None:
    profile = parse(MINIMAL.replace("[cpu]", '[cpu.env]\nX = "{thread}"'), "mine.toml")
    with pytest.raises(
        PennyError, match=r"env\.X uses the placeholder \{thread\}; known are: dtype, standin"
    ):
        resolve(profile, "cpu", Path("/m"), HERE)


def test_device_without_settings() -> None:
    with pytest.raises(PennyError, match="no settings for the device cpu; it is made for: cuda"):
        resolve(load("qwen38-27b"), "cpu", Path("/m"), HERE)


def test_python_path_goes_in_front_of_the_callers() -> None:
    launch = resolved("cpu")
    assert launch.child_env({"PYTHONPATH": "/mine", "HOME": "/h"})["PYTHONPATH"] == "/standin:/mine"
    assert launch.child_env({})["PYTHONPATH"] == "/standin"
    assert resolved("cuda").child_env({"PYTHONPATH": "/mine"})["PYTHONPATH"] == "/mine"


def test_command_does_in_a_shell_what_the_supervisor_does() -> None:
    launch = resolved("cpu", "served_model_name=it's a $name", "env.ODD=a 'b' $c")
    command = launch.command("printf").replace("printf -m penny_server.sglang.launch", "printf '%s\\n'")
    assert " printf '%s\\n' --model-path /m" in command
    printed = subprocess.check_output(["sh", "-c", command], text=True).splitlines()
    assert printed == list(launch.args)
    shown = launch.command("/usr/bin/env")
    shown = shown[: shown.index(" /usr/bin/env")] + f" {shlex.quote(sys.executable)} -c " + shlex.quote(
        "import os; print(repr(dict(os.environ)))"
    )  # fmt: skip
    env = eval(subprocess.check_output(["sh", "-c", shown], text=True, env={"PYTHONPATH": "/mine"}))
    assert {k: env[k] for k in launch.env} == launch.child_env({"PYTHONPATH": "/mine"})


def test_overrides_default_to_nothing() -> None:
    assert resolve(load("tiny-27b"), "cpu", Path("/m"), HERE, Overrides()) == resolved("cpu")


def test_names_of_arguments_as_people_type_them() -> None:
    assert canonical("--max-running-requests") == "max_running_requests"
    assert canonical("expert-parallel-size") == "ep_size"
    assert canonical("fp8-gemm-backend") == "fp8_gemm_runner_backend"


def test_catalogue_agrees_with_sglangs_own_parser() -> None:
    """Every argument read from the source is one that SGLang's argparse takes, with the same shape."""
    script = """
import argparse, json
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
kinds = {"_StoreTrueAction": "switch", "BooleanOptionalAction": "toggle"}
for action in parser._actions:
    kind = kinds.get(type(action).__name__) or ("list" if action.nargs in ("+", "*") else "value")
    for option in action.option_strings:
        plain = type(action).__name__ == "_StoreAction"
        print(json.dumps([option, action.dest, kind, getattr(action.type, "__name__", None), plain]))
"""
    printed = subprocess.check_output([sys.executable, "-c", script], text=True, stderr=subprocess.DEVNULL)
    rows = [json.loads(line) for line in printed.splitlines() if line.startswith("[")]
    real = {option: (dest, kind, parsed_as) for option, dest, kind, parsed_as, _ in rows}
    wrong = []
    for flag in catalogue().values():
        dest, kind, parsed_as = real.get(flag.option, (None, None, None))
        same_type = flag.scalar in (None, "str") or parsed_as == flag.scalar
        if dest != flag.name or kind != flag.kind or not same_type:
            wrong.append((flag, dest, kind, parsed_as))
    assert wrong == []
    assert {dest for _, dest, _, _, plain in rows if plain} - set(catalogue()) == {"config"}
