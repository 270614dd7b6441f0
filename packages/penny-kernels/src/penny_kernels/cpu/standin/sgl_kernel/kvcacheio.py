"""``sgl_kernel.kvcacheio`` of the stand-in."""

from collections.abc import Callable
from typing import NoReturn

from penny_kernels.cpu import missing_operation, registry

globals().update(registry["sgl_kernel.kvcacheio"])


def __getattr__(name: str) -> Callable[..., NoReturn]:
    return missing_operation(__name__, name)
