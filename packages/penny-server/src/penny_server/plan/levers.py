"""What would make the pool larger, and by how many tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from penny_models.shapes import WIDTHS, ModelShape
from penny_server.plan.settings import PlanSettings
from penny_server.plan.sizing import slots_per_request

FRACTION_STEP = 0.01
Tokens = Callable[[PlanSettings], int]


@dataclass(frozen=True)
class Lever:
    """One change: how it is made, what it gains in tokens of the pool, and what it costs."""

    change: str
    gains: int
    costs: str


@dataclass(frozen=True)
class _Change:
    change: str
    settings: PlanSettings
    costs: str


def levers(model: ModelShape, settings: PlanSettings, fraction: float, tokens: Tokens) -> tuple[Lever, ...]:
    """Every change that gains tokens, the largest gain first; ``tokens`` sizes the pool for settings."""
    plain = replace(settings, fraction=fraction)
    now = tokens(plain)
    found = [Lever(made.change, tokens(made.settings) - now, made.costs) for made in _changes(model, plain)]
    return tuple(sorted((lever for lever in found if lever.gains > 0), key=lambda lever: -lever.gains))


def _changes(model: ModelShape, now: PlanSettings) -> Iterator[_Change]:
    if now.max_tokens is not None:
        yield _Change(
            "max_total_tokens unset", replace(now, max_tokens=None), "nothing is kept free on purpose"
        )
    if now.fraction is not None and now.fraction + FRACTION_STEP < 1:
        higher = round(now.fraction + FRACTION_STEP, 3)
        yield _Change(
            f"mem_fraction_static={higher}",
            replace(now, fraction=higher),
            "less room for graphs and activations",
        )
    yield from _state_changes(model, now)
    if WIDTHS.get(now.kv_dtype, 2) > 1 and now.device == "cuda":
        yield _Change("kv_cache_dtype=fp8_e4m3", replace(now, kv_dtype="fp8_e4m3"), "KV in 8 bits")
    if model.multimodal:
        yield _Change("language_model_only=true", replace(now, text_only=True), "no images")
    if model.text.family == "qwen4_exp" and not now.online_fp8:
        yield _Change("online_fp8=true", replace(now, online_fp8=True), "BF16 projections in FP8, SM120 only")
    if now.spec != "none":
        without = replace(now, spec="none", draft_tokens=0, token_map=False, draft_path=None)
        yield _Change("no speculation", without, "slower answers")


def _state_changes(model: ModelShape, now: PlanSettings) -> Iterator[_Change]:
    ratio = slots_per_request(now)
    if now.slots is not None and now.requests is not None and now.slots > ratio * now.requests:
        least = ratio * now.requests
        yield _Change(
            f"max_mamba_cache_size={least}",
            replace(now, slots=least),
            "fewer prefixes keep their recurrent state",
        )
    if now.requests is not None and now.requests > 1:
        fewer = replace(now, requests=now.requests - 1)
        if now.slots is not None:
            fewer = replace(fewer, slots=max(ratio, now.slots * fewer.requests // now.requests))  # type: ignore[operator]
        change = f"max_running_requests={fewer.requests}"
        if fewer.slots is not None:
            change += f", max_mamba_cache_size={fewer.slots}"
        yield _Change(change, fewer, "one request less at a time")
    if now.slots is None and now.radix and now.requests is not None:
        fixed = replace(now, slots=6 * now.requests)
        yield _Change(
            f"max_mamba_cache_size={fixed.slots}", fixed, "fewer cached prefixes than automatic sizing"
        )
    if (now.ssm_dtype or model.text.ssm_dtype or "float32") == "float32":
        yield _Change(
            "mamba_ssm_dtype=bfloat16", replace(now, ssm_dtype="bfloat16"), "recurrent state in 16 bits"
        )
    if now.spec != "none" and now.draft_tokens > 2:
        fewer = replace(now, draft_tokens=now.draft_tokens - 1)
        yield _Change(
            f"{fewer.draft_tokens} draft tokens instead of {now.draft_tokens}", fewer, "shorter acceptance"
        )
    if now.spec != "none" and now.charge_states and not now.replay:
        change = "verification states neither kept nor counted"
        yield _Change(
            change, replace(now, recover_ssm=True, charge_states=False), "a feature that is not built yet"
        )
