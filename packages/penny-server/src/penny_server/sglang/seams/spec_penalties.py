"""Penalties in speculation, exact: greedy output with them is that of the same server without drafts.

Stock's DFLASH verification looks for a field that no longer exists and drops presence, frequency and repetition
penalties (with overlap; without, repetition alone). With NEXTN and EAGLE it counts one token of each verified block.
Here each row of a block counts what was generated before and the drafts before it (``penny_spec.verify.penalise``),
from the requests' own output. The feature ``penalties`` has it complete by then: without that one the probes fail.
Verification also leaves ``min_p`` out, and would answer a request with it from another distribution: it is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from penny_server.sglang.seam import Seam
from penny_server.sglang.seams.penalties import OVERLAP, around, wanted

FEATURE = "spec-penalties"
EAGLE = "sglang.srt.speculative.eagle_utils.eagle_sample"
DFLASH = "sglang.srt.speculative.dflash_utils.apply_dflash_verify_logits_adjustments"
PREPARE = "sglang.srt.speculative.dflash_info.DFlashVerifyInput.prepare_for_verify"
ADMIT = "sglang.srt.dllm.mixin.scheduler.SchedulerDllmMixin.validate_dllm_request"
SKIP = "sglang.srt.speculative.dflash_worker_v2.DFlashWorkerV2._can_skip_verify_logits"
BLOCK = "_penny_block"
COUNTS = "_penny_counts"


def _counts(req: Any, vocabulary: int, device: Any) -> Any:
    """How often the request generated each token, int64 [vocabulary]; counted on from the last call."""
    import torch

    done, counts = getattr(req, COUNTS, (0, None))
    if counts is None or done > len(req.output_ids):
        done, counts = 0, torch.zeros(vocabulary, dtype=torch.long, device=device)
    new = torch.tensor(list(req.output_ids[done:]), dtype=torch.long).to(device)
    counts.index_add_(0, new, torch.ones_like(new))
    setattr(req, COUNTS, (done + len(new), counts))
    return counts


def _stops(req: Any) -> list[int]:
    """The tokens that stock bans until there are ``min_new_tokens`` (``penaltylib/min_new_tokens.py``)."""
    tokenizer = req.tokenizer
    ids = {*(req.sampling_params.stop_token_ids or ()), *(req.eos_token_ids or ())}
    ids |= {*(tokenizer.additional_stop_token_ids or ()), tokenizer.eos_token_id}
    return sorted(ids - {None})


def penalise_block(reqs: Sequence[Any], logits: Any, block: Any) -> None:
    """Penalise the target's rows of a block in place.

    Args:
        reqs: the batch's requests.
        logits: [requests * width, vocabulary], the target's rows.
        block: [requests, width] token ids, the verified one first.
    """
    import torch

    from penny_spec.verify import Penalties, penalise

    rows = logits.view(len(reqs), block.shape[1], -1)
    params = [req.sampling_params for req in reqs]

    def of(name: str) -> Any:
        return torch.tensor([getattr(p, name) for p in params], dtype=torch.float32).to(rows.device)

    generated = torch.stack([_counts(req, rows.shape[2], rows.device) for req in reqs])
    asked = Penalties(of("presence_penalty"), of("frequency_penalty"), of("repetition_penalty"))
    rows.copy_(penalise(rows.float(), block[:, 1:].long(), generated, asked, validate=False))
    for index, (req, param) in enumerate(zip(reqs, params, strict=True)):
        short = param.min_new_tokens - len(req.output_ids)
        if short > 0:
            rows[index, :short, _stops(req)] = float("-inf")


def _eagle_sample(
    original: Callable[..., Any], verify_input: Any, batch: Any, logits_output: Any, *args: Any, **kwargs: Any
) -> Any:
    info = batch.sampling_info
    if batch.forward_mode.is_idle() or verify_input.topk != 1 or not wanted(batch.reqs):
        return original(verify_input, batch, logits_output, *args, **kwargs)
    block = verify_input.draft_token.view(len(batch.reqs), -1)
    penalise_block(batch.reqs, logits_output.next_token_logits, block)
    kept = info.acc_additive_penalties, info.acc_scaling_penalties
    info.acc_additive_penalties = info.acc_scaling_penalties = None
    try:
        return original(verify_input, batch, logits_output, *args, **kwargs)
    finally:
        info.acc_additive_penalties, info.acc_scaling_penalties = kept


def _note_block(
    original: Callable[..., Any], verify_input: Any, batch: Any, *args: Any, **kwargs: Any
) -> Any:
    """Stock's adjustments see neither the requests nor the drafts; leave both with the sampling settings."""
    if batch.sampling_info is not None and batch.reqs and wanted(batch.reqs):
        setattr(batch.sampling_info, BLOCK, (batch.reqs, verify_input.draft_token.view(len(batch.reqs), -1)))
    return original(verify_input, batch, *args, **kwargs)


def _adjust(
    original: Callable[..., Any], *, next_token_logits: Any, sampling_info: Any, **kwargs: Any
) -> Any:
    noted = vars(sampling_info).pop(BLOCK, None)
    if noted is not None:
        penalise_block(noted[0], next_token_logits, noted[1])
        sampling_info = dataclasses.replace(
            sampling_info,
            acc_additive_penalties=None,
            acc_scaling_penalties=None,
            penalizer_orchestrator=None,
        )
    return original(next_token_logits=next_token_logits, sampling_info=sampling_info, **kwargs)


def _needs_logits(original: Callable[..., bool], worker: Any, batch: Any, info: Any) -> bool:
    return not wanted(batch.reqs) and original(worker, batch, info)


def _no_min_p(original: Callable[..., str | None], scheduler: Any, req: Any) -> str | None:
    """Stock asks this of every request, and answers a sentence with status 400."""
    params = req.sampling_params
    refused = original(scheduler, req)
    if refused is not None or scheduler.spec_algorithm.is_none() or params.min_p <= 0 or params.top_k == 1:
        return refused
    return (
        f"min_p: with drafts the target's distribution is not cut by it; leave it out, or ask for top_p or top_k "
        f"(found {params.min_p:g})."
    )


def _seam(name: str, target: str, digest: str, summary: str, hook: Any) -> Seam:
    return around(FEATURE, name, target, digest, summary, hook, needs=(OVERLAP,))


SEAMS = (
    _seam(
        "chain",
        EAGLE,
        "b497c62acadc5e71",
        "penalises each row of a NEXTN or EAGLE chain exactly",
        _eagle_sample,
    ),
    _seam(
        "block", PREPARE, "cfe1f10b4da6169c", "leaves a DFLASH block where its rows are adjusted", _note_block
    ),
    _seam(
        "rows",
        DFLASH,
        "f2b860053490403b",
        "penalises each row of a DFLASH block exactly; stock drops penalties",
        _adjust,
    ),
    _seam(
        "logits",
        SKIP,
        "6a9bc3612764f1de",
        "keeps the logits of a DFLASH block that is to be penalised",
        _needs_logits,
    ),
    around(
        FEATURE,
        "min-p",
        ADMIT,
        "a76695db5c90fff2",
        "refuses min_p, which verification leaves out",
        _no_min_p,
    ),
)
