"""What a model with these settings asks of a GPU: weights, bytes per token, per slot and per request."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penny_models.shapes import (
    WIDTHS,
    DFlashShape,
    Format,
    ModelShape,
    Part,
    SlotState,
    TokenCost,
    dflash_parts,
    nextn_parts,
    nextn_storage,
    nextn_tables,
    replay_ring,
    slot_state,
    token_cost,
    unquantised,
    verify_state,
)
from penny_server.plan.constants import MIB, UNEXPLAINED, UNEXPLAINED_ELSEWHERE, Constant
from penny_server.plan.machines import Machine
from penny_server.plan.settings import PlanSettings

DEFAULT_SSM = "float32"
NO_UNEXPLAINED = Constant("held beside the weights", 0, "assumed", "none on a CPU")
TOKEN_ID_BYTES = 4


@dataclass(frozen=True)
class Demand:
    """Bytes, unless said otherwise.

    Attributes:
        weights: the target's parts; ``draft`` the draft's; ``dropped`` is loaded with the draft and freed after the
            pool is sized.
        token: cost of a token in the target's pool; ``draft_token`` in the draft's; ``uncharged_token`` is what the
            draft's pool takes and SGLang does not count.
        slot: state of one recurrent slot.
        verify: what verification keeps for one request; ``verify_charged`` is what SGLang counts for it.
        ring: a request's ReplaySSM ring.
        head_rows: the copied rows of the head with a token map, made after the pool is sized.
        unexplained: memory in use at sizing that no weight explains.
    """

    weights: tuple[Part, ...]
    draft: tuple[Part, ...]
    dropped: tuple[Part, ...]
    token: TokenCost
    draft_token: TokenCost
    uncharged_token: int
    slot: SlotState
    verify: int
    verify_charged: int
    ring: int
    head_rows: int
    unexplained: Constant
    context: int

    @property
    def loaded(self) -> int:
        """All that is resident when SGLang sizes the pool."""
        parts = (*self.weights, *self.draft, *self.dropped)
        return sum(part.bytes for part in parts) + self.unexplained.bytes

    @property
    def cell(self) -> int:
        """What SGLang charges for one token (``pool_configurator.py``, ``_cell_size``)."""
        return self.token.total + self.draft_token.total - self.uncharged_token


def kv_width(model: ModelShape, name: str) -> int:
    """Bytes of a KV element for a ``kv_cache_dtype`` (SGLang ``mem_cache/kv_cache_dtype.py``)."""
    if name == "auto":
        found = model.config.get("quantization_config") or {}
        algorithm = str(found.get("kv_cache_quant_algo") or "") if isinstance(found, dict) else ""
        return 1 if algorithm.upper() == "FP8" else 4 if model.storage.width == 4 else 2
    return WIDTHS.get(name, 1)


def context_length(model: ModelShape, settings: PlanSettings) -> int:
    """The longest request: ``context_length`` as given, else what the model's config says."""
    return settings.context or model.text.positions


REPLICATED = ("router", "norms", "hyper connections", "ple", "indexer", "fusion", "selector", "convolutions")
"""Parts that every GPU of a tensor-parallel group holds whole."""


def divided(parts: tuple[Part, ...], tp: int) -> tuple[Part, ...]:
    """``parts`` as one of ``tp`` GPUs holds them."""
    if tp == 1:
        return parts
    return tuple(
        part if part.name.removeprefix("draft ") in REPLICATED else replace(part, bytes=-(-part.bytes // tp))
        for part in parts
    )


def resident_tables(model: ModelShape) -> tuple[Part, ...]:
    """PLE tables that lie with the model, as SGLang builds them without offload: FP8 as stored, else in its dtype."""
    if model.text.ngram is None:
        return ()
    stored = WIDTHS.get(model.text.ngram.table_dtype, 2)
    width = stored if stored == 1 else model.storage.width
    kept: Format = "fp8" if width == 1 else "fp32" if width == 4 else "bf16"
    sizes = [table.bytes // stored for table in model.tables]
    return tuple(Part("ple table", kept, size, size * width) for size in sizes)


def demand(model: ModelShape, draft: DFlashShape | None, settings: PlanSettings, machine: Machine) -> Demand:
    """Works out everything from shapes; nothing here depends on how much memory there is."""
    text = model.text
    width = kv_width(model, settings.kv_dtype)
    index_width = 1 if settings.index_dtype == "fp8_e4m3" else 2
    tp = settings.tp
    token = token_cost(text, len(text.full_layers), width, index_width, tp)
    conv_width = WIDTHS.get(settings.conv_dtype, 2)
    sharded = replace(text, key_heads=text.key_heads // tp, value_heads=text.value_heads // tp)
    slot = slot_state(sharded, WIDTHS.get(settings.ssm_dtype or text.ssm_dtype or DEFAULT_SSM, 4), conv_width)

    parts: tuple[Part, ...] = ()
    dropped: tuple[Part, ...] = ()
    draft_token, uncharged = TokenCost(0, 0), 0
    if settings.spec == "nextn":
        parts = nextn_parts(text, nextn_storage(model.storage, settings.draft_quantization))
        dropped = nextn_tables(text, model.storage)
        draft_token = token_cost(text, 1, width, index_width, tp)
        counted = text.family == "qwen4_exp" or text.mtp_counted or settings.draft_path is not None
        uncharged = 0 if counted else draft_token.total
    elif settings.spec == "dflash" and draft is not None:
        parts = dflash_parts(draft, unquantised(settings.dtype))
        draft_width = kv_width(model, settings.draft_kv_dtype or settings.kv_dtype)
        draft_token = TokenCost(draft.layers * draft.kv_per_layer // min(tp, draft.kv_heads) * draft_width, 0)

    verify = charged = ring = 0
    if settings.spec != "none":
        verify = verify_state(
            sharded, slot, settings.draft_tokens, conv_width, shared=settings.device == "cuda"
        )
        charged = slot.recurrent * settings.draft_tokens if settings.charge_states else 0
        if settings.replay or settings.recover_ssm:
            verify -= slot.temporal * settings.draft_tokens
        if settings.replay:
            charged, ring = 0, replay_ring(sharded, settings.replay_length, conv_width)
    weights = model.online_fp8() if settings.online_fp8 else model.parts
    if settings.ple == "device":
        weights = (*weights, *resident_tables(model))
    return Demand(
        weights=divided(weights, tp),
        draft=divided(parts, tp),
        dropped=divided(dropped, tp),
        token=token,
        draft_token=draft_token,
        uncharged_token=uncharged,
        slot=slot,
        verify=verify,
        verify_charged=charged,
        ring=ring,
        head_rows=settings.map_rows * text.hidden * (1 if settings.online_fp8 else 2)
        if settings.token_map
        else 0,
        unexplained=_unexplained(model, settings, machine),
        context=context_length(model, settings),
    )


def _unexplained(model: ModelShape, settings: PlanSettings, machine: Machine) -> Constant:
    if settings.device == "cpu" or model.bytes < 256 * MIB:
        return NO_UNEXPLAINED
    return UNEXPLAINED.get((machine.capability or "", model.text.family), UNEXPLAINED_ELSEWHERE)
