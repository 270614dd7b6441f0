"""A global map on a head whose rows are sharded over tensor-parallel ranks."""

import torch
from torch import Tensor

from penny_spec.frspec.errors import InputError, MapError


def local_rows(ids: Tensor, vocab: int, tp: int) -> tuple[Tensor, ...]:
    """The rows of each rank's shard that a map of global ids selects.

    Rank `r` owns the global rows `r * vocab / tp` up to `(r + 1) * vocab / tp`. Put after one another, the
    ranks' selections are the map itself, in its order. Indexing a shard with global ids is the fault of
    sgl-project/sglang#4328 (a device assert with more than one rank).

    Args:
        ids: int64 `(rows,)`, ascending global ids.
        vocab: rows of the whole head, with its padding; a multiple of `tp`.
        tp: number of ranks.

    Returns:
        `tp` int64 tensors, each ascending, each entry in 0 to `vocab / tp - 1`.

    Raises:
        InputError: `vocab` cannot be shared out evenly.
        MapError: an id outside 0 to `vocab - 1`, or ids that do not ascend.
    """
    if tp < 1 or vocab < 1 or vocab % tp:
        raise InputError(
            f"A head of {vocab:,} rows does not divide over {tp} ranks; pass the padded row count of the head."
        )
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < vocab:
        wrong = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
        raise MapError(f"The map holds id {wrong}; the head has rows 0 to {vocab - 1:,}.")
    if bool((ids[1:] <= ids[:-1]).any()):
        raise MapError("The ids of the map do not ascend; rebuild it, or sort it and drop repeated ids.")
    shard = vocab // tp
    bounds = torch.arange(1, tp, dtype=ids.dtype, device=ids.device) * shard
    cuts = torch.searchsorted(ids.contiguous(), bounds).tolist()
    return tuple(part - rank * shard for rank, part in enumerate(torch.tensor_split(ids, cuts)))
