"""``sgl_kernel.mamba`` of the stand-in."""

from collections.abc import Callable
from typing import NoReturn

from penny_kernels.cpu import missing_operation, registry

globals().update(registry["sgl_kernel.mamba"])


def __getattr__(name: str) -> Callable[..., NoReturn]:
    return missing_operation(__name__, name)
