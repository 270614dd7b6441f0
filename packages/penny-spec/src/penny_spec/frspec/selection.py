"""Which token ids a map of a given size holds."""

import math
from collections.abc import Iterable, Mapping

from penny_spec.frspec.errors import InputError


def select_ids(
    counts: Mapping[int, float],
    tokenizer_ids: Iterable[int],
    special_ids: Iterable[int],
    size: int,
    base: int,
) -> list[int]:
    """Choose `size` ids: the lowest, the special, the most frequent; the result ascends.

    The rule of Pennyroyal's map builder, after FR-Spec (arXiv 2502.14856): (1) the `base` lowest ids of the
    tokenizer, which in a byte-level BPE are single bytes and the earliest merges; (2) all special ids; (3) the
    most frequent ids, between equals the lower one; (4) the lowest ids that are left. The order of the
    arguments' items does not matter.

    Args:
        counts: how often each id was seen, or any weight of that meaning; finite and not negative. Ids that
            the tokenizer lacks are ignored.
        tokenizer_ids: all ids that the tokenizer can give.
        special_ids: ids that are always kept.
        size: rows of the map.
        base: how many of the lowest ids are always kept.

    Raises:
        InputError: a special id that the tokenizer lacks, a base outside 0 to `size`, a size of less than 1 or
            above the vocabulary, base and special ids that do not fit into `size`, or a weight that is no count.
    """
    valid = sorted(set(tokenizer_ids))
    known, special = set(valid), set(special_ids)
    if strange := sorted(special - known):
        raise InputError(f"Special id {strange[0]} is not an id of the tokenizer; leave it out.")
    if not 1 <= size <= len(valid):
        raise InputError(f"A map of {size:,} rows was asked for; choose 1 to {len(valid):,}, the vocabulary.")
    if not 0 <= base <= size:
        raise InputError(f"The base is {base:,} lowest ids; choose 0 to {size:,}, the size of the map.")
    if base + len(special) > size:
        raise InputError(
            f"{base:,} lowest ids and {len(special):,} special ids do not fit into {size:,} rows; "
            "lower the base or enlarge the map."
        )
    if wrong := [token for token, n in counts.items() if not (math.isfinite(n) and n >= 0)]:
        raise InputError(f"Id {wrong[0]} has the count {counts[wrong[0]]}; counts are finite, not negative.")
    chosen = set(valid[:base]) | special
    frequent = sorted((t for t in counts if t in known), key=lambda token: (-counts[token], token))
    for token in [*frequent, *valid]:
        if len(chosen) == size:
            break
        chosen.add(token)
    return sorted(chosen)
