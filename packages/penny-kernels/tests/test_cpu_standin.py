"""The stand-in is found through PYTHONPATH alone, refuses without the CPU engine, and names what it lacks."""

import importlib.util
import os
import subprocess
import sys

import pytest
import torch

from penny_kernels import cpu


def python(code, standin=True, engine="1"):
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SGLANG_USE_CPU_ENGINE")}
    env["OMP_NUM_THREADS"] = "1"
    if standin:
        env["PYTHONPATH"] = str(cpu.standin_path())
    if engine is not None:
        env["SGLANG_USE_CPU_ENGINE"] = engine
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)


def test_installing_the_wheel_does_not_offer_it():
    assert (cpu.standin_path() / "sgl_kernel" / "__init__.py").is_file()
    code = "import importlib.util as u; s = u.find_spec('sgl_kernel'); print(s.origin if s else None)"
    for engine in (None, "1"):
        assert "penny_kernels" not in python(code, standin=False, engine=engine).stdout
    assert "penny_kernels" in python(code).stdout


@pytest.mark.parametrize("engine", [None, "0"])
def test_it_refuses_without_the_cpu_engine(engine):
    run = python("import sgl_kernel", engine=engine)
    assert run.returncode == 1
    assert "SGLANG_USE_CPU_ENGINE" in run.stderr
    assert "ImportError" in run.stderr
    assert repr(engine) in run.stderr


CODE = """
import importlib.util, torch
import sgl_kernel, sgl_kernel.mamba, sgl_kernel.kvcacheio
from penny_kernels import cpu
for place, operations in cpu.registry.items():
    owner = {"torch.ops.sgl_kernel": torch.ops.sgl_kernel}.get(place) or importlib.import_module(place)
    for name, operation in operations.items():
        assert getattr(owner, name) is operation, (place, name)
assert importlib.util.find_spec("sgl_kernel.scalar_type") is None
assert not hasattr(torch.ops.sgl_kernel, "convert_weight_packed")
assert not hasattr(sgl_kernel, "__wrapped__")
assert sgl_kernel.__version__
from sgl_kernel import merge_state_v2
from sgl_kernel.kvcacheio import transfer_kv_all_layer
for missing in (merge_state_v2, transfer_kv_all_layer):
    try:
        missing(1, out=2)
    except NotImplementedError as error:
        print(error)
"""


def test_what_it_offers_and_what_it_lacks():
    run = python(CODE)
    assert run.returncode == 0, run.stderr
    first, second = run.stdout.strip().split("\n")
    assert first.startswith("sgl_kernel.merge_state_v2 is not in Penny's CPU operation set")
    assert second.startswith("sgl_kernel.kvcacheio.transfer_kv_all_layer is not in Penny's CPU operation set")


def test_registry_names_each_operation_once():
    names = [name for operations in cpu.registry.values() for name in operations]
    assert len(names) == len(set(names)) == 27
    assert all(name == f.__name__ for operations in cpu.registry.values() for name, f in operations.items())
    assert not hasattr(
        torch.ops.sgl_kernel, "decode_attention_cpu"
    )  # importing the library alone installs nothing


@pytest.mark.skipif(importlib.util.find_spec("sglang") is None, reason="sglang is not installed")
def test_stock_models_import_on_it():
    run = python(
        "import sglang.srt.models.qwen3_5, sglang.srt.models.qwen4_exp\n"
        "import sglang.srt.layers.attention.linear.gdn_backend as gdn\n"
        "import sglang.srt.layers.attention.intel_amx_backend\n"
        "import sglang.kernels.ops.speculative.spec_tree, sglang.kernels.ops.kvcache.cache_move\n"
        "import sglang.srt.mem_cache.allocation\n"
        "print(gdn.causal_conv1d_fn.__module__, gdn.fused_gdn_gating.__module__)"
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.split() == ["penny_kernels.cpu.causal_conv1d", "penny_kernels.cpu.gating"]


def test_registry_holds_every_exported_function_that_is_named_as_an_operation() -> None:
    """Stock names them ``..._cpu``; one that is exported but not registered fails only in a server."""
    registered = {name for operations in cpu.registry.values() for name in operations}
    exported = {name for name in cpu.__all__ if name.endswith("_cpu")}
    assert exported
    assert exported <= registered
