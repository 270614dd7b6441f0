"""A request's ``seed`` honoured: stock reads it only with ``--enable-deterministic-inference``, else drops it.

That flag also gives every request without a seed the same one, and forbids most attention backends. Here each
request samples with its own seed, derived from its id if it brought none, so that a repeated seed repeats the
sample whatever else is in the batch. Needs ``--sampling-backend pytorch``: the FlashInfer sampler takes no seeds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Seam

BATCH_INFO = "sglang.srt.sampling.sampling_batch_info.SamplingBatchInfo.from_schedule_batch"
FILTERED = "sglang.srt.layers.sampler.top_k_top_p_min_p_sampling_from_probs_torch"


def _seed_of(request: Any) -> int:
    params = request.sampling_params
    if params.sampling_seed is not None:
        return int(params.sampling_seed)
    # From the id, not drawn: the ranks of a tensor-parallel server must sample the same token.
    return int.from_bytes(hashlib.sha256(str(request.rid).encode()).digest()[:8], "big") >> 1


def _with_seeds(info: Any, cls: type, batch: Any, vocab_size: int) -> Any:
    import torch

    seeds = [_seed_of(request) for request in batch.reqs]
    info.sampling_seed = torch.tensor(seeds, dtype=torch.int64).to(batch.device, non_blocking=True)
    # Stock samples by token id while no request in the batch cuts its distribution, else by rank in the sorted
    # one: a neighbour's top_p would change a seeded sample. With this flag it always sorts.
    info.need_top_p_sampling = True
    return info


def _min_p_first(
    original: Callable[..., Any],
    probs: Any,
    top_ks: Any,
    top_ps: Any,
    min_ps: Any,
    need_min_p_sampling: bool,
    sampling_seed: Any,
    positions: Any,
    **options: Any,
) -> Any:
    """Stock refuses ``min_p`` with a seed. The tokens under the threshold are a row's least probable ones, so
    zeroing them before the top-k and top-p cuts leaves those cuts where they were."""
    if need_min_p_sampling and sampling_seed is not None:
        threshold = probs.amax(-1, keepdim=True) * min_ps.view(-1, 1)
        probs = probs.masked_fill(probs < threshold, 0.0)
        need_min_p_sampling = False
    return original(
        probs, top_ks, top_ps, min_ps, need_min_p_sampling, sampling_seed, positions, **options
    )  # fmt: skip


SEAMS = (
    Seam(
        "seeds.per-request",
        "seeds",
        BATCH_INFO,
        "48352e06affec043",
        "samples each request with its own seed",
        "after",
        _with_seeds,
        lambda: hooked(BATCH_INFO),
        ("scheduler",),
    ),
    Seam(
        "seeds.min-p",
        "seeds",
        FILTERED,
        "4c8e67c1ecebd6b7",
        "lets min_p and a seed go together",
        "around",
        _min_p_first,
        lambda: hooked(FILTERED),
        ("scheduler",),
    ),
)
