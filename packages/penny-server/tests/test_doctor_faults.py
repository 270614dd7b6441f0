"""penny doctor names faults that are really there, and the fix that it names works.

Each row puts one fault on healthy ground (a cut file, a taken port, a setting), expects exactly one check to say so,
does what the fix says and expects that check to be content. Faults of a GPU or a kernel are in test_doctor_facts,
limits and mounts in test_doctor_limits.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penny_cache import namespace
from penny_models import tiny
from penny_server.doctor.read.disk import read_folder
from penny_server.doctor.read.packages import read_installed
from penny_server.doctor.read.tools import read_tools

_spec = importlib.util.spec_from_file_location("faults", Path(__file__).parent / "fakes" / "faults.py")
assert _spec is not None
assert _spec.loader is not None
f: Any = importlib.util.module_from_spec(_spec)
sys.modules["faults"] = f
_spec.loader.exec_module(f)
m, Fault, settings = f.m, f.Fault, f.settings
cpu, model, gpu, flash, dflash = f.cpu, f.model, f.gpu, f.flash, f.dflash


def shard(g: Any, number: int = 0) -> Path:
    return sorted(g.model.glob("*.safetensors"))[number]


def cut(g: Any, tmp: Path) -> None:
    os.truncate(shard(g), shard(g).stat().st_size - 1000)


def again(g: Any, fix: str, tmp: Path) -> None:
    """Fetches the checkpoint again."""
    assert "etch" in fix
    shutil.copytree(tiny.path("tiny-27b"), g.model, dirs_exist_ok=True)


def pointer(g: Any, tmp: Path) -> None:
    shard(g).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7340032\n")


def draft(g: Any, tmp: Path) -> None:
    g.settings["speculative_draft_model_path"] = str(tmp / "draft")
    shutil.copytree(tiny.path("tiny-27b-dflash2"), tmp / "draft")
    os.truncate(sorted((tmp / "draft").glob("*.safetensors"))[0], 5000)


def unfinished(g: Any, tmp: Path) -> None:
    file = g.model / ".cache/huggingface/download/model.safetensors.ab12.incomplete"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"half")


def template(g: Any, tmp: Path) -> None:
    (tmp / "qwen-fixed-v22.5.jinja").write_text("{{ messages }}")
    g.settings["chat_template"] = str(tmp / "qwen-fixed-v22.5.jinja")


def damaged(g: Any, tmp: Path) -> None:
    g.settings["store_dir"] = str(tmp / "store")
    from penny_server.doctor.checks.store import identity

    made = namespace.create(tmp / "store", identity(g.case()))
    (made.path / namespace.MANIFEST_NAME).write_bytes(b"penny-cache namespace 1\n")


def remove_named(g: Any, fix: str, tmp: Path) -> None:
    named = re.match(r"Remove (\S+):", fix)
    assert named is not None
    shutil.rmtree(named[1])


def take_port(g: Any, tmp: Path) -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", g.port))
    listener.listen()
    g.kept.append(listener)


def other_port(g: Any, fix: str, tmp: Path) -> None:
    g.port = int(fix.rpartition(" ")[2])


def in_the_way(g: Any, tmp: Path) -> None:
    (tmp / "cache").write_text("a file")
    g.facts = replace(g.facts, folder=read_folder)
    g.environ(XDG_CACHE_HOME=str(tmp / "cache" / "penny"))


def hidden(g: Any, tmp: Path) -> None:
    """A folder called sglang in the folder that Python looks into first."""
    (tmp / "sglang").mkdir()
    (tmp / "sglang" / "__init__.py").write_text("")
    sys.path.insert(0, str(tmp))
    importlib.invalidate_caches()
    g.change("installed", shadow=read_installed(os.environ).shadow)
    sys.path.remove(str(tmp))


def shown(g: Any, fix: str, tmp: Path) -> None:
    importlib.invalidate_caches()
    g.change("installed", shadow=read_installed(os.environ).shadow)


def no_compiler(g: Any, tmp: Path) -> None:
    environ = {**os.environ, "CXX": "/opt/none/g++-15"}
    g.facts = replace(
        g.facts, tools=replace(read_tools(environ), headers=True), environ={**g.facts.environ, **environ}
    )
    g.change("tools", nvcc="/usr/bin/nvcc", nvcc_version=(13, 3))


def with_compiler(g: Any, fix: str, tmp: Path) -> None:
    assert "unset CC and CXX" in fix
    found = read_tools(
        {k: v for k, v in os.environ.items() if k not in ("CC", "CXX")} | {"CXX": sys.executable}
    )
    g.change("tools", cxx=found.cxx)


def half_written(g: Any, tmp: Path) -> None:
    g.environ(TRITON_CACHE_DIR=str(tmp / "triton"))
    (tmp / "triton" / "k3").mkdir(parents=True)
    (tmp / "triton" / "k3" / "__triton_launcher.so").write_bytes(b"")


def remove_kernels(g: Any, fix: str, tmp: Path) -> None:
    assert fix.startswith("Remove them")
    shutil.rmtree(tmp / "triton" / "k3")


def unset(g: Any, fix: str, tmp: Path) -> None:
    name = fix.rpartition(" ")[2]
    g.facts = replace(g.facts, environ={k: v for k, v in g.facts.environ.items() if k != name})


def no_proxy(g: Any, fix: str, tmp: Path) -> None:
    g.environ(no_proxy=fix.rpartition("=")[2])


def leave_out(g: Any, fix: str, tmp: Path) -> None:
    g.without = tuple(fix.rpartition(" ")[2].split(","))


REAL = (
    Fault("draft tokens that do not go with steps", "LA-02", flash,
          settings(speculative_num_steps="3", speculative_num_draft_tokens="8"), "settings.resolve",
          "speculative_num_draft_tokens", lambda g, fix, t: g.settings.update(speculative_num_draft_tokens="4")),
    Fault("a GEMM back end of SM100", "LA-05", flash, settings(fp4_gemm_runner_backend="flashinfer_trtllm"),
          "settings.resolve", "needs an SM100 GPU"),
    Fault("a tool parser that does not fit the template", "LA-05", model, settings(tool_call_parser="qwen25"),
          "model.settings", "<function="),
    Fault("a fraction below the weights", "MS-03", gpu, settings(mem_fraction_static="0.25"), "plan.pool",
          "are missing for weights"),
    Fault("host states too few for the host KV", "MS-06", dflash, lambda g, t: None, "plan.states",
          "dead memory", lambda g, fix, t: g.settings.update(max_total_tokens=fix.rpartition("(")[2].rstrip(").")),
          "warn"),
    Fault("a pool that does not fit", "StockSpecialist1707: 1,310,720 asked, 1,114,304 given", flash,
          settings(max_total_tokens="1310720"), "plan.pool", "max_total_tokens asks for 1,310,720"),
    Fault("too few recurrent slots", "vLLM recipes #831", flash, settings(max_mamba_cache_size="8"),
          "settings.resolve", "too few recurrent-state slots"),
    Fault("features that are not built", "issue 4", flash, lambda g, t: setattr(g, "without", ()),
          "install.features", "needs recover-ssm", leave_out),
    Fault("a cut shard", "PL-03, half-copied checkpoints", model, cut, "model.checkpoint", "is truncated", again),
    Fault("a missing shard", "PL-03", model, lambda g, t: shard(g, 1).unlink(), "model.checkpoint", "lacks 1 shard",
          again),
    Fault("a shard that is a Git LFS pointer", "clones without LFS", model, pointer, "model.checkpoint",
          "ends inside its safetensors header", again),
    Fault("no tokenizer", "copied weights only", model, lambda g, t: (g.model / "tokenizer.json").unlink(),
          "model.checkpoint", "has no tokenizer", lambda g, fix, t: again(g, "fetch", t)),
    Fault("no checkpoint folder", "a wrong path", model, lambda g, t: shutil.rmtree(g.model), "model.checkpoint",
          "does not exist", again),
    Fault("a cut draft", "stock serves it and says nothing", dflash, draft, "model.draft", "ends inside its",
          lambda g, fix, t: shutil.copytree(tiny.path("tiny-27b-dflash2"), t / "draft", dirs_exist_ok=True)),
    Fault("a download that did not end", "a lost connection", model, unfinished, "model.downloads", "did not end",
          lambda g, fix, t: shutil.rmtree(g.model / ".cache"), "warn"),
    Fault("no chat template of that name", "reference, pins", model, settings(chat_template="/none/t.jinja"),
          "model.files", "is not there", lambda g, fix, t: g.settings.pop("chat_template")),
    Fault("a changed chat template under its old name", "reference, pins", model, template, "model.files",
          "and the one of that name has e57684bae415",
          lambda g, fix, t: g.settings.update(chat_template=shutil.copy(g.settings["chat_template"], t / "my.jinja"))),
    Fault("a damaged namespace", "torn manifests", model, damaged, "store.namespace", "torn or was changed",
          remove_named),
    Fault("a port in use", "any second start", cpu, take_port, "network.port", "is in use", other_port),
    Fault("a file where the cache folder should be", "a wrong mount", cpu, in_the_way, "folders.writable",
          "is a file", lambda g, fix, t: g.environ(XDG_CACHE_HOME=str(t / "other"))),
    Fault("a folder that hides SGLang", "a start from a clone", cpu, hidden, "install.shadow", "would import SGLang",
          shown),
    Fault("CXX names no compiler", "reference, CXX=g++-15", gpu, no_compiler, "build.compiler",
          "CXX is /opt/none/g++-15", with_compiler),
    Fault("an empty compiled kernel", "FreeToken #490", gpu, half_written, "folders.kernels", "is empty",
          remove_kernels),
    Fault("a proxy before the server's own address", "company networks", cpu,
          lambda g, t: g.environ(http_proxy="http://proxy:3128"), "network.proxy", "never gets its own warm-up",
          no_proxy),
    Fault("the CPU engine on a GPU", "a variable that was left", gpu,
          lambda g, t: g.environ(SGLANG_USE_CPU_ENGINE="1"), "environment.variables", "SGLANG_USE_CPU_ENGINE", unset),
)  # fmt: skip


@pytest.mark.parametrize("fault", REAL, ids=lambda fault: fault.name)
def test_a_fault_is_named_and_its_fix_works(fault: Any, tmp_path: Path) -> None:
    f.prove(fault, tmp_path)
