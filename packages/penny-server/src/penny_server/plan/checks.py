"""What is wrong with settings before any memory is counted: one sentence each."""

from __future__ import annotations

from penny_models.shapes import DFlashShape, ModelShape
from penny_server.errors import ExitCode, PennyError
from penny_server.plan.constants import COMFORTABLE_SLOTS
from penny_server.plan.demand import context_length
from penny_server.plan.settings import PlanSettings
from penny_server.plan.sizing import slots_per_request


def check_settings(model: ModelShape, draft: DFlashShape | None, settings: PlanSettings) -> None:
    """Raises PennyError (usage) for the first thing that would keep a server from starting as asked."""
    _check_sizes(model, settings)
    _check_slots(settings)
    _check_context(model, settings)
    _check_speculation(model, draft, settings)
    _check_gpus(model, settings)
    if settings.fraction is not None and not 0 < settings.fraction < 1:
        raise PennyError(
            f"mem_fraction_static is {settings.fraction}; expected a number between 0 and 1, such as 0.9.",
            ExitCode.USAGE,
        )


def _check_gpus(model: ModelShape, settings: PlanSettings) -> None:
    if settings.tp > settings.gpus:
        raise PennyError(
            f"tp_size is {settings.tp} and the plan is for {settings.gpus} GPU{'s' * (settings.gpus > 1)}; plan with "
            f"--gpus {settings.tp}, or with --set tp_size=1.",
            ExitCode.USAGE,
        )
    text = model.text
    if settings.tp < 1 or text.key_heads % settings.tp or text.heads % settings.tp:
        raise PennyError(
            f"tp_size is {settings.tp}, which does not divide {text.heads} attention heads and {text.key_heads} key "
            "heads of the recurrent layers; use 1, 2 or 4.",
            ExitCode.USAGE,
        )


def _check_sizes(model: ModelShape, settings: PlanSettings) -> None:
    page, tokens = settings.page, settings.max_tokens
    if tokens is not None and tokens % page:
        low = tokens // page * page
        raise PennyError(
            f"max_total_tokens is {tokens:,}, which is no multiple of the page of {page} tokens; use {low:,} or "
            f"{low + page:,}.",
            ExitCode.USAGE,
        )
    index = model.text.indexer
    if index is not None and (page <= 1 or page % index.ratio):
        raise PennyError(
            f"page_size is {page}, and the compressed index keys of this model need a multiple of {index.ratio} above "
            "1; use page_size 64.",
            ExitCode.USAGE,
        )


def _check_slots(settings: PlanSettings) -> None:
    if settings.slots is None or settings.requests is None:
        return
    ratio = slots_per_request(settings)
    if settings.slots // ratio >= settings.requests:
        return
    asked = settings.requests
    raise PennyError(
        f"max_mamba_cache_size is {settings.slots}, which serves {settings.slots // ratio} of the {asked} requests "
        f"asked for at {ratio} recurrent slots each; use at least {asked * ratio}, better "
        f"{asked * max(COMFORTABLE_SLOTS, ratio)}.",
        ExitCode.USAGE,
    )


def reach(model: ModelShape) -> tuple[int, str]:
    """The longest context that the positions of a model cover, and why."""
    rope, native = model.text.rope, model.text.positions
    kind = str(rope.get("rope_type") or rope.get("type") or "default")
    if kind != "yarn":
        return native, f"max_position_embeddings is {native:,} without YaRN"
    original = rope.get("original_max_position_embeddings")
    factor = rope.get("factor")
    if not original or not factor:
        missing = "factor" if original else "original_max_position_embeddings"
        raise PennyError(
            f"rope_type is yarn without {missing}; YaRN takes factor and original_max_position_embeddings together.",
            ExitCode.USAGE,
        )
    return int(original * float(factor)), f"YaRN stretches {int(original):,} by {float(factor):g}"


def _check_context(model: ModelShape, settings: PlanSettings) -> None:
    far, why = reach(model)
    asked = context_length(model, settings)
    if asked > far:
        raise PennyError(
            f"context_length is {asked:,}, above the {far:,} tokens that the model reaches ({why}); ask for less, or "
            "raise the factor of rope_parameters.",
            ExitCode.USAGE,
        )
    if asked > model.text.positions and not settings.long_context_allowed:
        raise PennyError(
            f"context_length is {asked:,} and max_position_embeddings is {model.text.positions:,}; SGLang takes it "
            "only with env.SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1.",
            ExitCode.USAGE,
        )


def _check_speculation(model: ModelShape, draft: DFlashShape | None, settings: PlanSettings) -> None:
    if settings.spec == "none":
        half = "speculative_draft_model_path" if settings.draft_path else ""
        half = half or ("speculative_token_map" if settings.token_map else "")
        if half:
            raise PennyError(
                f"{half} is set without speculative_algorithm; give both or neither.", ExitCode.USAGE
            )
        return
    if settings.spec == "nextn" and not model.text.mtp_layers:
        raise PennyError(
            "speculative_algorithm is NEXTN, and this config.json has no mtp_num_hidden_layers; the checkpoint brings "
            "no draft layer, so plan without speculation.",
            ExitCode.CHECKPOINT,
        )
    if settings.spec == "dflash":
        _check_dflash(model, draft)
    index = model.text.indexer
    if index is not None and settings.draft_tokens > index.ratio:
        raise PennyError(
            f"speculative_num_draft_tokens is {settings.draft_tokens}, and this model's pending index keys hold "
            f"{index.ratio}; use at most {index.ratio}.",
            ExitCode.USAGE,
        )


def _check_dflash(model: ModelShape, draft: DFlashShape | None) -> None:
    if draft is None:
        raise PennyError(
            "speculative_algorithm is DFLASH and no draft model is known; give its config.json with --draft-config.",
            ExitCode.USAGE,
        )
    if draft.hidden != model.text.hidden:
        raise PennyError(
            f"The draft's hidden_size is {draft.hidden} and the model's is {model.text.hidden}; a DFlash draft must "
            "have the same, so take the draft that was made for this model.",
            ExitCode.CHECKPOINT,
        )
