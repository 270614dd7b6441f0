"""Stand-in for ``sgl_kernel`` without a GPU; found only through ``penny_kernels.cpu.standin_path()``."""

import os
from collections.abc import Callable
from typing import NoReturn

if os.environ.get("SGLANG_USE_CPU_ENGINE") != "1":
    raise ImportError(
        "This sgl_kernel is Penny's CPU stand-in, and SGLANG_USE_CPU_ENGINE is "
        f"{os.environ.get('SGLANG_USE_CPU_ENGINE')!r} where '1' is expected. Start the server for the CPU "
        "device, or take penny_kernels/cpu/standin off PYTHONPATH to use the real sglang-kernel."
    )

import torch

from penny_kernels import __version__ as __version__
from penny_kernels.cpu import missing_operation, registry

for _name, _operation in registry["torch.ops.sgl_kernel"].items():
    _operation.default = _operation  # type: ignore[attr-defined]  # stock names some operations' only overload
    setattr(torch.ops.sgl_kernel, _name, _operation)
globals().update(registry["sgl_kernel"])


def __getattr__(name: str) -> Callable[..., NoReturn]:
    return missing_operation(__name__, name)
