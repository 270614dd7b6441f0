"""What a map holds."""

from dataclasses import dataclass
from pathlib import Path

from penny_spec.frspec.mapfile import ids_sha256, load_map
from penny_spec.frspec.scripts import ScriptRow, scripts
from penny_spec.frspec.tiling import Tiling, tiling
from penny_spec.frspec.vocabulary import Vocabulary


@dataclass(frozen=True)
class Inspection:
    """Contents of a map.

    Attributes:
        path: the map file.
        size: rows.
        lowest: lowest id.
        highest: highest id.
        leading: ids 0, 1, ... that are in the map without a gap, the base of the reference's rule or more.
        ids_sha256: identity of the map.
        tiling: its rows against GEMM tiles.
        special_kept: special ids in the map; None without a tokenizer.
        special_total: special ids of the tokenizer; None without one.
        scripts: tokens by script; empty without a tokenizer.
    """

    path: str
    size: int
    lowest: int
    highest: int
    leading: int
    ids_sha256: str
    tiling: Tiling
    special_kept: int | None
    special_total: int | None
    scripts: tuple[ScriptRow, ...]


def inspect_map(path: Path, vocabulary: Vocabulary | None = None) -> Inspection:
    """Read a map and say what it holds; scripts and special ids need the tokenizer.

    Raises:
        InputError: there is no such file.
        MapError: it is no map, or has ids above the vocabulary.
    """
    ids = load_map(path, vocabulary.model_vocab_size if vocabulary else None)
    listed = ids.tolist()
    return Inspection(
        path=str(path),
        size=len(listed),
        lowest=listed[0],
        highest=listed[-1],
        leading=next((row for row, token in enumerate(listed) if row != token), len(listed)),
        ids_sha256=ids_sha256(ids),
        tiling=tiling(len(listed)),
        special_kept=len(set(vocabulary.special_ids) & set(listed)) if vocabulary else None,
        special_total=len(vocabulary.special_ids) if vocabulary else None,
        scripts=tuple(scripts(listed, vocabulary)) if vocabulary else (),
    )
