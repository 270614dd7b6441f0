"""``sgl_kernel.kvcacheio`` of the stand-in."""

from collections.abc import Callable
from typing import NoReturn

from penny_kernels.cpu import registry
from sgl_kernel import refuse

globals().update(registry["sgl_kernel.kvcacheio"])


def __getattr__(name: str) -> Callable[..., NoReturn]:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return refuse(f"{__name__}.{name}")
