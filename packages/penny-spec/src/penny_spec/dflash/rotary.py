"""Rotary position embedding of a draft: plain, or YaRN."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from penny_spec.dflash.fields import Fields

_ROPE_DIM_REPLACES = {"partial_rotary_factor", "mrope_section", "mrope_interleaved"}
_READ = {"rope_type", "type", "rope_theta", "rope_dim"}
_READ_YARN = _READ | {"factor", "original_max_position_embeddings", "beta_fast", "beta_slow"}


@dataclass(frozen=True)
class Rope:
    """How positions turn queries and keys. `factor` 1 means no YaRN.

    Attributes:
        theta: base of the frequencies.
        factor: how many times longer the context is than the trained one, at least 1.
        original: tokens of the trained context.
        fast: YaRN keeps frequencies that turn at least this often within `original`.
        slow: YaRN divides frequencies that turn at most this often within `original` by `factor`.
    """

    theta: float = 10000.0
    factor: float = 1.0
    original: int = 0
    fast: float = 32.0
    slow: float = 1.0

    @property
    def yarn(self) -> bool:
        """Whether frequencies are stretched."""
        return self.factor > 1.0

    @property
    def magnitude(self) -> float:
        """By what cosines and sines are multiplied: `0.1 ln(factor) + 1` under YaRN (arXiv 2309.00071, 3.4)."""
        return 0.1 * math.log(self.factor) + 1.0 if self.yarn else 1.0


def read_rope(top: Fields, head_dim: int) -> tuple[Rope, tuple[str, ...]]:
    """The `rope_parameters` (or `rope_theta` and `rope_scaling`) of a draft's config.json.

    An explicit `rope_dim` is the trained rotary width; fields copied from the target (`mrope_section`,
    `partial_rotary_factor`) then mean nothing, since drafts see positions of one dimension.

    Returns:
        The `Rope`, and what of it the drafter of this package does not compute.

    Raises:
        ValueError: a value of a wrong type or range.
    """
    given = dict(top.mapping("rope_parameters") or top.mapping("rope_scaling") or {})
    if "rope_dim" in given:
        given = {key: value for key, value in given.items() if key not in _ROPE_DIM_REPLACES}
    fields = Fields("rope_parameters", given, *top.objects)
    theta = fields.number("rope_theta", 10000.0)
    if theta <= 0:
        raise fields.refusal("rope_theta", theta, "positive")
    kind = given.get("rope_type", given.get("type", "default"))
    width = given.get("rope_dim", head_dim)
    unsupported = () if width == head_dim else (f"rope_dim {width} of {head_dim}",)
    if kind == "default":
        extra = sorted(set(given) - _READ)
        return Rope(theta), (*unsupported, *extra)
    if kind != "yarn":
        return Rope(theta), (*unsupported, f"rope_type {kind}")
    factor = Fields("rope_parameters", given).number("factor", 0.0)
    if factor < 1.0:
        raise ValueError(f"rope_parameters has rope_type yarn and factor {factor:g}; it must be at least 1.")
    rope = Rope(
        theta,
        factor,
        Fields("rope_parameters", given).required("original_max_position_embeddings"),
        fields.number("beta_fast", 32.0),
        fields.number("beta_slow", 1.0),
    )
    return rope, (*unsupported, *sorted(set(given) - _READ_YARN))


def frequencies(rope: Rope, head_dim: int, dtype: torch.dtype) -> Tensor:
    """Radians a token of each channel pair: `(head_dim / 2,)`.

    Without YaRN `theta ** (-2 i / head_dim)`. YaRN (arXiv 2309.00071, section 3.2) divides slow frequencies by
    `factor`, keeps fast ones, and blends linearly between, over whole channel numbers.
    """
    steps = torch.arange(0, head_dim, 2, dtype=dtype) / head_dim
    plain = rope.theta**-steps
    if not rope.yarn:
        return plain

    def channel(turns: float) -> float:
        return head_dim * math.log(rope.original / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))

    low = max(math.floor(channel(rope.fast)), 0)
    high = min(math.ceil(channel(rope.slow)), head_dim - 1)
    ramp = (torch.arange(head_dim // 2, dtype=dtype) - low) / max(high - low, 0.001)
    stretched = ramp.clamp(0, 1)
    return plain * (1 - stretched) + plain / rope.factor * stretched


def rotary_table(rope: Rope, positions: Tensor, head_dim: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines `(N, head_dim / 2)` for int64 `positions` `(N,)`, computed in `dtype`."""
    angles = positions.to(dtype).unsqueeze(-1) * frequencies(rope, head_dim, dtype).to(positions.device)
    return angles.cos() * rope.magnitude, angles.sin() * rope.magnitude


def rotate(x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    """Turn `x` `(heads, N, head_dim)`: channel `i` pairs with channel `i + head_dim / 2`."""
    cos, sin = table
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
