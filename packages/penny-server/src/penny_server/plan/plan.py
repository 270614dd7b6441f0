"""Puts a plan together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penny_models import CheckpointError
from penny_models.shapes import (
    DFlashShape,
    ModelShape,
    merged,
    model_shape,
    read_config,
    read_dflash,
)
from penny_server.errors import ExitCode, PennyError
from penny_server.plan.checks import check_settings
from penny_server.plan.constants import COMFORTABLE_SLOTS, MIB
from penny_server.plan.demand import Demand, demand
from penny_server.plan.fraction import activations_mib, memory_fraction
from penny_server.plan.host import HostPlan, plan_host
from penny_server.plan.ledger import Line, gpu_lines
from penny_server.plan.levers import Lever, levers
from penny_server.plan.machines import Machine
from penny_server.plan.settings import PlanSettings
from penny_server.plan.sizing import Pool, gib, size_pool


@dataclass(frozen=True)
class Plan:
    """A server before it is started.

    Attributes:
        free: GPU memory in bytes that nothing on the list takes, for activations; ``rule`` is what SGLang's rule of
            thumb wants for them.
        notes: sentences about what is odd, or not known.
    """

    machine: Machine
    settings: PlanSettings
    fraction: float
    need: Demand
    pool: Pool
    lines: tuple[Line, ...]
    free: int
    rule: int
    host: HostPlan
    levers: tuple[Lever, ...]
    notes: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether a request of the whole context fits into the pool."""
        return self.pool.tokens >= self.need.context and self.pool.requests > 0


@dataclass(frozen=True)
class Source:
    """The parsed configs that a plan is made from, with where they were read."""

    config: dict[str, Any]
    where: Path
    draft: dict[str, Any] | None = None
    draft_where: Path | None = None


def read_source(config: Path, draft: Path | None) -> Source:
    """Reads the config.json of a model, and of its draft. Raises PennyError (checkpoint)."""
    try:
        return Source(read_config(config), config, read_config(draft) if draft else None, draft)
    except CheckpointError as error:
        raise PennyError(str(error), ExitCode.CHECKPOINT) from error


def make_plan(source: Source, settings: PlanSettings, machine: Machine) -> Plan:
    """The plan. Raises PennyError: usage for settings that contradict, checkpoint for a config that cannot be sized."""
    model, draft = shapes(source, settings)
    check_settings(model, draft, settings)
    vision = model.config.get("vision_config") if model.multimodal else None
    width = int(vision.get("hidden_size", 1024)) if isinstance(vision, dict) else None
    fraction = memory_fraction(machine, settings, width)
    need = demand(model, draft, settings, machine)
    pool = size_pool(machine, settings, need, fraction, model.multimodal)
    lines = gpu_lines(machine, settings, need, pool)

    def tokens(changed: PlanSettings) -> int:
        target, _ = shapes(source, changed)
        wanted = demand(target, draft, changed, machine)
        return size_pool(machine, changed, wanted, changed.fraction or fraction, target.multimodal).tokens

    return Plan(
        machine=machine,
        settings=settings,
        fraction=fraction,
        need=need,
        pool=pool,
        lines=lines,
        free=machine.usable - sum(line.bytes for line in lines),
        rule=int(activations_mib(machine, settings) * MIB) if settings.device == "cuda" else 0,
        host=plan_host(model, settings, need, pool),
        levers=levers(model, settings, fraction, tokens),
        notes=tuple(_notes(settings, need, pool)),
    )


def shapes(source: Source, settings: PlanSettings) -> tuple[ModelShape, DFlashShape | None]:
    """The shapes of model and draft under ``settings``. Raises PennyError (checkpoint)."""
    config = merged(source.config, dict(settings.overrides))
    try:
        model = model_shape(config, source.where, dtype=settings.dtype, text_only=settings.text_only)
        if settings.spec != "dflash" or source.draft is None:
            return model, None
        table = merged(source.draft, dict(settings.draft_overrides))
        return model, read_dflash(table, source.draft_where or Path("the draft's config.json"))
    except CheckpointError as error:
        raise PennyError(str(error), ExitCode.CHECKPOINT) from error


def with_block(source: Source, settings: PlanSettings) -> PlanSettings:
    """``settings`` with the draft's own block as the number of draft tokens where none is given."""
    if settings.spec != "dflash" or settings.draft_tokens or source.draft is None:
        return settings
    draft = shapes(source, settings)[1]
    return replace(settings, draft_tokens=draft.block if draft else 0)


def _notes(settings: PlanSettings, need: Demand, pool: Pool) -> list[str]:
    notes = []
    if settings.unbuilt:
        notes.append(
            f"The plan counts on features that are not built yet ({', '.join(settings.unbuilt)}); plan without one "
            "with --without NAME."
        )
    if pool.budget <= 0:
        notes.append(
            f"Nothing is left for the KV pool: {-gib(pool.budget):.2f} GiB are missing, and the server will not start."
        )
    elif pool.tokens < need.context:
        notes.append(
            f"The pool of {pool.tokens:,} tokens is smaller than one request of {need.context:,} tokens; the longest "
            "requests are refused."
        )
    if settings.max_tokens is not None and settings.max_tokens > pool.fits:
        notes.append(
            f"max_total_tokens asks for {settings.max_tokens:,} tokens and {pool.fits:,} fit; stock SGLang takes the "
            "smaller number with a warning, our pools feature refuses to start."
        )
    if settings.requests and pool.requests < settings.requests:
        notes.append(f"{pool.requests} of the {settings.requests} requests asked for can run at once.")
    if settings.requests and 0 < pool.slots < COMFORTABLE_SLOTS * settings.requests and settings.radix:
        notes.append(
            f"{pool.slots} recurrent slots for {settings.requests} requests: {pool.per_request} each are needed, about "
            f"{COMFORTABLE_SLOTS} keep the prefixes of other conversations alive."
        )
    if need.dropped:
        size = gib(sum(part.bytes for part in need.dropped))
        notes.append(
            f"Stock loads an embedding and a head for the draft and frees them only after sizing the pool: {size:.2f} "
            f"GiB, or {sum(part.bytes for part in need.dropped) // need.cell:,} tokens, are not used."
        )
    experts = next((part for part in need.draft if part.name == "draft experts"), None)
    if (
        experts is not None
        and experts.format == "bf16"
        and any(part.format == "nvfp4" for part in need.weights)
    ):
        notes.append(
            f"Stock builds the draft's experts of such a checkpoint in BF16, {gib(experts.bytes):.2f} GiB. A "
            "checkpoint that lists mtp. modules in quantized_layers keeps them as it says; plan it with --config."
        )
    if settings.tp > 1:
        notes.append("Sizes are for each GPU. Tensor parallelism has not been checked against a server.")
    if need.uncharged_token:
        notes.append(
            "This config.json has no num_nextn_predict_layers, so stock sizes the pool without the draft's KV and then "
            f"allocates it too: {gib(need.uncharged_token * pool.tokens):.2f} GiB come out of what was to stay free."
        )
    charged = need.verify_charged * (pool.requests + 1)
    spare = charged - need.verify * (pool.requests + 1)
    if settings.recover_ssm and spare > 0:
        notes.append(
            f"Stock charges {gib(charged):.2f} GiB for verification states that are not kept; {gib(spare):.2f} GiB of "
            "it stay free."
        )
    if need.unexplained.kind != "fitted" and need.unexplained.bytes:
        notes.append(
            f"{gib(need.unexplained.bytes):.2f} GiB beside the weights are assumed: {need.unexplained.source}."
        )
    return notes
