"""What builds kernels at the first start on a GPU."""

from __future__ import annotations

from collections.abc import Iterable

from penny_server.doctor.base import Case, Check, Finding, fail, ok, warn

SM120_NVCC = (12, 8)
"""The first nvcc that knows compute capability 12.0."""
LEAST_NVCC = (12, 0)


def _uses_flashinfer(case: Case) -> bool:
    launch = case.launch
    return launch is not None and any(
        isinstance(value, str) and value.startswith(("flashinfer", "trtllm"))
        for value in launch.settings.values()
    )


def _nvcc(case: Case) -> Iterable[Finding]:
    tools = case.facts.tools
    blackwell = any(gpu.capability.startswith("12.") for gpu in case.facts.gpus[: case.ranks])
    least = SM120_NVCC if blackwell else LEAST_NVCC
    version = ".".join(map(str, tools.nvcc_version))
    if not tools.nvcc:
        built = _uses_flashinfer(case) and not tools.prebuilt
        say = fail if built else warn
        yield say(
            "There is no nvcc in CUDA_HOME, PATH or /usr/local/cuda; "
            + (
                "FlashInfer and SGLang build kernels with it."
                if built
                else "SGLang builds some kernels with it, and takes slower ones where it can."
            ),
            f"Install the CUDA toolkit {least[0]}.{least[1]} or newer, and set CUDA_HOME to it.",
        )
    elif tools.nvcc_version < least:
        yield fail(
            f"{tools.nvcc} is of CUDA {version}, and this GPU needs {least[0]}.{least[1]} or newer.",
            "Install a newer CUDA toolkit, and set CUDA_HOME to it.",
        )
    else:
        yield ok(f"nvcc of CUDA {version} ({tools.nvcc}).")


def _compiler(case: Case) -> Iterable[Finding]:
    tools, environ = case.facts.tools, case.facts.environ
    missing = [
        f"no C compiler ({'CC is ' + environ['CC'] if environ.get('CC') else 'gcc or clang'})"
        * (not tools.c),
        f"no C++ compiler ({'CXX is ' + environ['CXX'] if environ.get('CXX') else 'c++'})" * (not tools.cxx),
        "no ninja" * (not tools.ninja),
    ]
    missing = [text for text in missing if text]
    if missing:
        yield fail(
            f"There is {' and '.join(missing)}, and Triton and FlashInfer build kernels with them.",
            "Install gcc, g++ and ninja, and unset CC and CXX or set them to compilers that are there.",
        )
    else:
        yield ok(f"{tools.c}, {tools.cxx} and ninja.")


def _headers(case: Case) -> Iterable[Finding]:
    python = ".".join(map(str, case.facts.installed.python))
    if case.facts.tools.headers:
        yield ok(f"The C headers of Python {python} are there.")
    else:
        yield fail(
            f"Python.h of Python {python} is missing, and Triton compiles every kernel's launcher against it.",
            f"Install the headers: python{python}-dev or python{python}-devel.",
        )


def _flashinfer(case: Case) -> Iterable[Finding]:
    versions = case.facts.installed.versions or {}
    if not _uses_flashinfer(case):
        yield ok("This profile does not use FlashInfer.")
    elif "flashinfer-python" not in versions:
        yield fail(
            "FlashInfer is not installed; SGLang would fall back to slower kernels and say so in one line of its log.",
            "Install it: pip install 'penny-kernels[flashinfer]'",
        )
    else:
        kind = (
            "with ready-made kernels" if case.facts.tools.prebuilt else "kernels are built at the first start"
        )
        yield ok(f"FlashInfer {versions['flashinfer-python']}, {kind}.")


CHECKS = (
    Check(
        "build.flashinfer", "FlashInfer is there if the profile's kernels are from it", _flashinfer, "cuda"
    ),
    Check("build.nvcc", "an nvcc that knows this GPU", _nvcc, "cuda"),
    Check("build.compiler", "C and C++ compilers and ninja", _compiler, "cuda"),
    Check("build.headers", "Python's C headers, for Triton", _headers, "cuda"),
)
