"""How each tiny checkpoint is made."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penny_models.training.base import DraftingModel
from penny_models.training.processors import Json


def _nothing(*_: Any) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Recipe:
    """The parts of one checkpoint's training; see the folder of its architecture."""

    name: str
    config: Callable[[], Json]
    """Makes ``config.json``."""
    model: Callable[[], DraftingModel]
    use_kernels: Callable[[], None]
    """Puts the training forms of transformers' operations in place, in this process."""
    length: int
    """Tokens in one training sequence."""
    weights: dict[str, float]
    """Factor of each loss; the sum is minimised."""
    finish: Callable[..., dict[str, Any]] = _nothing
    """Trains on after the joint training: ``next.train_indexer.finish``. What it returns joins the results."""
    measure: Callable[..., dict[str, Any]] = _nothing
    """Measures what only this architecture has: ``next.measure.measure``. What it returns joins the results."""


def _dense() -> Recipe:
    from penny_models.training.dense.config import NAME, SEQUENCE_LENGTH, model_config
    from penny_models.training.dense.model import TinyDense, use_training_kernels

    weights = {"main": 1.0, "mtp1": 0.2, "mtp2": 0.1, "mtp3": 0.05}
    return Recipe(NAME, model_config, TinyDense, use_training_kernels, SEQUENCE_LENGTH, weights)


def _next() -> Recipe:
    from penny_models.training.next.config import NAME, SEQUENCE_LENGTH, model_config
    from penny_models.training.next.measure import measure
    from penny_models.training.next.model import TinyNext, use_training_kernels
    from penny_models.training.next.train_indexer import finish

    weights = {"main": 1.0, "mtp1": 0.2, "mtp2": 0.1, "mtp3": 0.05, "balance": 0.01}
    return Recipe(
        NAME, model_config, TinyNext, use_training_kernels, SEQUENCE_LENGTH, weights, finish, measure
    )


RECIPES: dict[str, Callable[[], Recipe]] = {"tiny-27b": _dense, "tiny-next": _next}


def recipe(name: str) -> Recipe:
    """Return the recipe of a checkpoint.

    Raises:
        ValueError: there is none of this name.
    """
    if name not in RECIPES:
        raise ValueError(f"There is no recipe named {name!r}; known: {', '.join(RECIPES)}.")
    return RECIPES[name]()
