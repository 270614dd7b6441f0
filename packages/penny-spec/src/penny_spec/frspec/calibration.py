"""The acceptance that a map was measured to have, in its manifest, where a guard finds it."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from penny_spec.frspec.documents import read_rows
from penny_spec.frspec.errors import InputError, MapError
from penny_spec.frspec.manifest import manifest_path, read_manifest
from penny_spec.frspec.mapfile import file_sha256, load_map, write_whole
from penny_spec.frspec.sources import CorpusFile
from penny_spec.frspec.streams import Advance
from penny_spec.guard import Expectation

HISTOGRAM = "spec_correct_drafts_histogram"
"""In `meta_info` of SGLang's answers: how many verifications accepted 0, 1, 2, ... draft tokens, up to the most."""


def accepted_by_slot(histogram: Sequence[int]) -> tuple[float, ...]:
    """The share of chains accepted at each draft position among those accepted up to the position before.

    Args:
        histogram: verifications that accepted 0, 1, ... draft tokens; as many entries as draft tokens, and one.
    """
    reached = list(accumulate(reversed(histogram)))[::-1]
    return tuple(after / before if before else 0.0 for before, after in pairwise(reached))


def calibrate(
    path: Path, answers: Sequence[CorpusFile], advance: Advance = lambda read: None
) -> dict[str, dict[str, Any]]:
    """Write the acceptance of recorded answers into the manifest of the map at `path`; return what was written.

    Each line of a file is an answer of SGLang's `/generate` that drafted with this map. Its `group` says what kind of
    text it was (`temperature_0/code`); without one it belongs to `all`.

    Raises:
        InputError: there is no map or manifest, or the answers are none or cannot be used.
        MapError: the manifest is of another map.
    """
    load_map(path)
    manifest = read_manifest(manifest_path(path))
    if manifest.get("map_sha256") != file_sha256(path):
        raise MapError(f"The manifest beside {path} is of another map; rebuild the map.")
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    for file in answers:
        for number, row in read_rows(file, advance):
            group, histogram = _answer(row, f"line {number} of {file.path}")
            counts[group].update(dict(enumerate(histogram)))
    # An answer's list ends at the most that it accepted, so that the widest of them tells the positions.
    widest = max((max(row) for row in counts.values()), default=0)
    whole = {
        group: [row[accepted] for accepted in range(widest + 1)] for group, row in sorted(counts.items())
    }
    rates = {group: accepted_by_slot(row) for group, row in whole.items()}
    try:
        Expectation(rates)
    except ValueError as error:
        raise InputError(str(error)) from error
    measured = {
        group: {"accepted_by_slot": list(row), "verifies": sum(whole[group])} for group, row in rates.items()
    }
    manifest["acceptance"] = measured
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    write_whole(manifest_path(path), text.encode())
    return measured


def _answer(row: dict[str, Any], where: str) -> tuple[str, list[int]]:
    group, inside = row.get("group", "all"), row.get("meta_info", row)
    counts = inside.get(HISTOGRAM) if isinstance(inside, dict) else None
    if not isinstance(group, str) or not group:
        raise InputError(f"The group in {where} is {group!r}; it is a text.")
    if not isinstance(counts, list) or not all(type(count) is int and count >= 0 for count in counts):
        counts = []
    if not sum(counts):
        raise InputError(
            f"There is no {HISTOGRAM} with counts in {where}; record answers of a server that drafts."
        )
    return group, counts
