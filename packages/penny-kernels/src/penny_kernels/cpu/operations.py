"""The registry: which operation stock SGLang takes from which part of ``sgl_kernel``."""

from collections.abc import Callable
from typing import Any, Literal, NoReturn, TypeVar, get_args

Place = Literal["torch.ops.sgl_kernel", "sgl_kernel", "sgl_kernel.mamba", "sgl_kernel.kvcacheio"]
Function = TypeVar("Function", bound=Callable[..., Any])

registry: dict[Place, dict[str, Callable[..., Any]]] = {place: {} for place in get_args(Place)}
"""Every operation by the module (or operation namespace) that stock takes it from, and by its name there."""


def operation(place: Place) -> Callable[[Function], Function]:
    """Decorator that enters a function into the registry under its own name."""

    def enter(function: Function) -> Function:
        registry[place][function.__name__] = function
        return function

    return enter


def missing_operation(module: str, name: str) -> Callable[..., NoReturn]:
    """What the stand-in hands out for a name that it lacks: stock imports many that it never calls here.

    Returns:
        A callable that raises NotImplementedError, naming the operation, when it is called.

    Raises:
        AttributeError: for names that start with an underscore, which are probes of the module itself.
    """
    if name.startswith("_"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    def missing(*args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(
            f"{module}.{name} is not in Penny's CPU operation set, which serves qwen3_5 and qwen4_exp. "
            "Use a GPU profile for what needs it."
        )

    return missing
