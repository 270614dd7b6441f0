"""Which parameters of a model are trained, by parts of their names."""

from torch import nn


def freeze(model: nn.Module, parts: tuple[str, ...]) -> None:
    """Train all parameters but those whose name has one of these parts."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not any(part in name for part in parts))


def freeze_all_but(model: nn.Module, parts: tuple[str, ...], besides: tuple[str, ...] = ()) -> None:
    """Train only the parameters whose name has one of these parts, and none of ``besides``."""
    for name, parameter in model.named_parameters():
        chosen = any(part in name for part in parts) and not any(part in name for part in besides)
        parameter.requires_grad_(chosen)
