"""Results that hold one list for each quantity, with a place for each request: SGLang's and vLLM's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from penny_bench.errors import BenchError
from penny_bench.importers.foreign import ForeignRequest

LISTS = (
    "input_lens",
    "output_lens",
    "ttfts",
    "itls",
    "errors",
    "start_times",
    "cached_tokens",
    "cached_tokens_details",
)


class Columns(BaseModel):
    """The lists; None where the tool was not told to save them. Times are in seconds."""

    model_config = ConfigDict(extra="ignore")

    input_lens: list[int] | None = None
    output_lens: list[int] | None = None
    ttfts: list[float] | None = None
    itls: list[list[float]] | None = None
    errors: list[str | None] | None = None
    start_times: list[float] | None = None
    cached_tokens: list[int | None] | None = None
    cached_tokens_details: list[dict[str, Any] | None] | None = None

    def requests(self, name: str) -> tuple[ForeignRequest, ...]:
        """The requests in order; nothing without the lists.

        Raises:
            BenchError: the lists of file `name` are not of one length.
        """
        ttfts, outputs = self.ttfts, self.output_lens
        if ttfts is None or outputs is None:
            return ()
        lists: dict[str, Sequence[Any] | None] = {key: getattr(self, key) for key in LISTS}
        lengths = {key: len(values) for key, values in lists.items() if values is not None}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{key} {length}" for key, length in lengths.items())
            raise BenchError(
                f"{name} has lists of different lengths ({told}); expected one place for each request."
            )
        zero = min(self.start_times) if self.start_times else 0.0
        return tuple(self._request(i, zero) for i in range(len(ttfts)))

    def _request(self, i: int, zero: float) -> ForeignRequest:
        sent = self.start_times[i] - zero if self.start_times else None
        prompt = self.input_lens[i] if self.input_lens else None
        error = self.errors[i] if self.errors else None
        ttft = self.ttfts[i] if self.ttfts else None
        if error or not ttft:
            message = (error or "").strip().splitlines()
            last = message[-1] if message else "No token came."
            return ForeignRequest(
                sent=sent, prompt_tokens=prompt, failure=("server" if error else "no_tokens", last)
            )
        pauses = tuple(self.itls[i]) if self.itls else None
        e2e = None if pauses is None else ttft + sum(pauses)
        return ForeignRequest(
            sent=sent,
            ttft=ttft,
            e2e=e2e,
            ended=e2e,
            pauses=pauses,
            prompt_tokens=prompt,
            output_tokens=self.output_lens[i] if self.output_lens else None,
            cached_tokens=self.cached_tokens[i] if self.cached_tokens else None,
            tiers=self.cached_tokens_details[i] if self.cached_tokens_details else None,
        )


def stated_times(value: dict[str, Any], pauses: str) -> dict[str, float | None]:
    """Medians and 99th percentiles as the tool states them in ms, in s; `pauses` names those between events."""
    found: dict[str, float | None] = {}
    for names, key in (
        (("ttft",), "ttft"),
        (("tpot",), "tpot"),
        (("itl",), pauses),
        (("e2el", "e2e_latency"), "e2e"),
    ):
        for name in names:
            for prefix, rank in (("median", "p50"), ("p50", "p50"), ("p99", "p99")):
                told = value.get(f"{prefix}_{name}_ms")
                if isinstance(told, int | float) and told > 0:
                    found[f"{key}_{rank}"] = told / 1000
    return found
