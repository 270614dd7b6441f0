"""Compilers that build kernels, looked for where FlashInfer and Triton look."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from penny_server.doctor.facts import Tools

DEFAULT_CUDA = "/usr/local/cuda"


def read_tools(environ: Mapping[str, str]) -> Tools:
    """The tools that a process with ``environ`` would find."""
    path = environ.get("PATH", "")

    def which(*names: str) -> str:
        return next((found for name in names if (found := shutil.which(name, path=path))), "")

    nvcc = _nvcc(environ, which("nvcc"))
    include = sysconfig.get_paths().get("include", "")
    return Tools(
        nvcc=nvcc,
        nvcc_version=_version(nvcc),
        c=which(environ["CC"]) if environ.get("CC") else which("gcc", "clang"),
        cxx=which(environ["CXX"]) if environ.get("CXX") else which("c++"),
        ninja=which("ninja") or _bundled_ninja(),
        headers=Path(include, "Python.h").is_file(),
        prebuilt=importlib.util.find_spec("flashinfer_jit_cache") is not None,
    )


def _nvcc(environ: Mapping[str, str], on_path: str) -> str:
    home = environ.get("CUDA_HOME") or environ.get("CUDA_PATH")
    if home is None and on_path:
        return on_path
    candidate = Path(home or DEFAULT_CUDA, "bin", "nvcc")
    return str(candidate) if candidate.is_file() else ""


def _version(nvcc: str) -> tuple[int, int]:
    if not nvcc:
        return (0, 0)
    try:
        printed = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    match = re.search(r"release (\d+)\.(\d+)", printed.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _bundled_ninja() -> str:
    spec = importlib.util.find_spec("ninja")
    return str(spec.origin) if spec and spec.origin else ""
