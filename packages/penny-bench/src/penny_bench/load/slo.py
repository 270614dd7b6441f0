"""Service level objectives: what makes an answer a good one."""

from __future__ import annotations

from dataclasses import dataclass, fields

from penny_bench.errors import BenchError
from penny_bench.load.metrics import Latencies
from penny_bench.load.parse import number, pairs


@dataclass(frozen=True, kw_only=True)
class Slo:
    """Upper limits, s; None for no limit. All that are set must hold.

    Attributes:
        ttft: time to the first token of any kind.
        ttft_content: time to the first token that is not reasoning.
        tpot: mean time per further token.
        e2e: time to the last token.
    """

    ttft: float | None = None
    ttft_content: float | None = None
    tpot: float | None = None
    e2e: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            limit = getattr(self, field.name)
            if limit is not None and not limit > 0:
                raise BenchError(f"The objective {field.name} is {limit:g}; give seconds above 0.")

    @classmethod
    def parse(cls, text: str) -> Slo:
        """From `ttft=0.5,tpot=0.05`.

        Raises:
            BenchError: an unknown name or no number.
        """
        what = f"The objective {text!r}"
        values = pairs(text, what)
        known = [field.name for field in fields(cls)]
        limits = {name: number(values, name, what) for name in known if name in values}
        if values or not limits:
            raise BenchError(f"{what} names no limit that is known; use {', '.join(known)}, in seconds.")
        return cls(**limits)

    def met(self, latencies: Latencies | None) -> bool:
        """Whether a request met all limits. One that failed (None), or lacks a limited value, did not.

        Only TPOT may be absent: an answer of one token has none and keeps any limit on it.
        """
        if latencies is None:
            return False
        for field in fields(self):
            limit, value = getattr(self, field.name), getattr(latencies, field.name)
            absent = value is None and field.name != "tpot"
            if limit is not None and (absent or (value is not None and value > limit)):
                return False
        return True
