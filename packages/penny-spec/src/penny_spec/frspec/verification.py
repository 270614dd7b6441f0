"""A map against its tokenizer and its manifest."""

from pathlib import Path
from typing import Any

from penny_spec.frspec.mapfile import file_sha256, ids_sha256, load_map
from penny_spec.frspec.vocabulary import Vocabulary


def verify_map(path: Path, vocabulary: Vocabulary | None, manifest: dict[str, Any] | None) -> list[str]:
    """What is wrong with a map, one sentence each; an empty list when nothing is.

    Form and range of the ids are always checked. With a vocabulary, each id must be one of the tokenizer's and all
    special ids must be there. With a manifest, its digests, sizes and special ids must be those found; a field that
    it lacks is named.

    Raises:
        InputError: there is no such map.
        MapError: the file is no map at all, or its ids do not ascend or lie outside the vocabulary.
    """
    ids = load_map(path, vocabulary.model_vocab_size if vocabulary else None)
    listed = set(ids.tolist())
    problems = []
    if vocabulary:
        if strange := sorted(listed - set(vocabulary.ids)):
            problems.append(
                f"Id {strange[0]} (of {len(strange)} such) is a padding row of the head, no token of the tokenizer; "
                "the draft can only lose by it."
            )
        if missing := sorted(set(vocabulary.special_ids) - listed):
            problems.append(
                f"{len(missing)} special ids are missing, the first is {missing[0]} "
                f"({vocabulary.tokenizer.id_to_token(missing[0])}); the draft could never propose them."
            )
    if manifest is None:
        return problems
    expected: dict[str, Any] = {
        "size": len(listed),
        "ids_sha256": ids_sha256(ids),
        "map_sha256": file_sha256(path),
    }
    if vocabulary:
        expected |= {
            "tokenizer_sha256": vocabulary.sha256,
            "tokenizer_vocab_size": len(vocabulary.ids),
            "model_vocab_size": vocabulary.model_vocab_size,
        }
    for field, found in expected.items():
        if field not in manifest:
            problems.append(f"The manifest has no field {field}; {found} was found.")
        elif manifest[field] != found:
            problems.append(f"The manifest says {field} {manifest[field]}; {found} was found.")
    kept = manifest.get("special_ids")
    if isinstance(kept, list) and (lost := [token for token in kept if token not in listed]):
        problems.append(f"The manifest says that special id {lost[0]} is kept; the map does not hold it.")
    return problems
