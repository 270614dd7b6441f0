"""Stand-in for ``sgl_kernel`` on a machine without a GPU; found only through ``penny_kernels.cpu.standin_path()``."""

import os
from collections.abc import Callable
from typing import NoReturn

if os.environ.get("SGLANG_USE_CPU_ENGINE") != "1":
    raise ImportError(
        "This sgl_kernel is Penny's CPU stand-in, and SGLANG_USE_CPU_ENGINE is "
        f"{os.environ.get('SGLANG_USE_CPU_ENGINE')!r} where '1' is expected. Start the server for the CPU device, or "
        "take penny_kernels/cpu/standin off PYTHONPATH to use the real sglang-kernel."
    )

import torch
from penny_kernels import __version__ as __version__
from penny_kernels.cpu import registry

for _name, _operation in registry["torch.ops.sgl_kernel"].items():
    setattr(torch.ops.sgl_kernel, _name, _operation)
globals().update(registry["sgl_kernel"])


def refuse(name: str) -> Callable[..., NoReturn]:
    """A callable that says which operation is missing when it is called."""

    def missing(*args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(
            f"{name} is not in Penny's CPU operation set, which serves qwen3_5 and qwen4_exp. "
            "Use a GPU profile for what needs it."
        )

    missing.__name__ = missing.__qualname__ = name
    return missing


def __getattr__(name: str) -> Callable[..., NoReturn]:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return refuse(f"{__name__}.{name}")
