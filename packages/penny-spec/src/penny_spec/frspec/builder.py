"""From inputs to a map with its manifest."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from penny_spec.frspec.coverage import Coverage, check_floor, measure
from penny_spec.frspec.documents import Fields
from penny_spec.frspec.errors import InputError
from penny_spec.frspec.manifest import CoverageRow, Manifest, manifest_path
from penny_spec.frspec.mapfile import ids_sha256, map_bytes, write_whole
from penny_spec.frspec.mixture import mix
from penny_spec.frspec.selection import select_ids
from penny_spec.frspec.sources import CorpusFile
from penny_spec.frspec.streams import Advance
from penny_spec.frspec.tally import Tally, tally_choices, tally_corpus
from penny_spec.frspec.tiling import tiling
from penny_spec.frspec.vocabulary import Vocabulary


@dataclass(frozen=True)
class Recipe:
    """How a map is made.

    Attributes:
        size: rows of the map.
        base: lowest ids that are always kept (the reference's 65,536-row map has 32,768). None: 256, the single
            bytes of a byte-level BPE, or half the size where that is less.
        keep_added: keep all added tokens, tags such as `</think>` too; False keeps the special ones only.
        choices_weight: share of the target's choices in the mixture, 0 to 1.
        hold_out: share of the documents that are kept back to measure coverage, 0 to below 1.
        floor: held-out coverage under which a build is refused, 0 to 1; 0 refuses nothing.
        fields: names of the fields in jsonl and parquet rows.
        ids_field: field with the token ids of a recorded choice.
        source_revision: revision of the corpus, for the manifest.
        evaluation_cases_used: whether the corpus has evaluation cases in it, for the manifest; None: not known.
    """

    size: int
    base: int | None = None
    keep_added: bool = True
    choices_weight: float = 0.5
    hold_out: float = 0.1
    floor: float = 0.9
    fields: Fields = field(default_factory=Fields)
    ids_field: str = "output_ids"
    source_revision: str | None = None
    evaluation_cases_used: bool | None = None


@dataclass(frozen=True)
class Built:
    """A map that passed its floor: ids that ascend, the manifest, and warnings as sentences."""

    ids: tuple[int, ...]
    manifest: Manifest
    warnings: tuple[str, ...]

    def write(self, path: Path) -> Path:
        """Write the map to `path` and the manifest beside it; return the manifest's path."""
        write_whole(path, map_bytes(self.ids))
        write_whole(manifest_path(path), self.manifest.to_json().encode())
        return manifest_path(path)


def build(
    vocabulary: Vocabulary,
    corpus: Sequence[CorpusFile],
    choices: Sequence[CorpusFile],
    recipe: Recipe,
    advance: Advance = lambda read: None,
) -> Built:
    """Read the inputs once, choose the ids, and measure their coverage of the documents that were kept back.

    Args:
        vocabulary: tokenizer of the target.
        corpus: files of text; may be empty when `choices_weight` is 1.
        choices: files of recorded token ids; when there are none, the weight is 0.
        recipe: see `Recipe`.
        advance: told the bytes read, for a progress bar.

    Raises:
        InputError: an input that cannot be read, or a recipe that cannot be followed.
        CoverageError: a language, a domain or the whole lies under the floor; nothing was written.
    """
    if not 0 <= recipe.hold_out < 1:
        raise InputError(f"The share to hold out is {recipe.hold_out}; choose 0 to below 1.")
    if not 0 <= recipe.floor <= 1:
        raise InputError(f"The floor is {recipe.floor}; choose a share between 0 and 1.")
    if recipe.floor > 0 and not recipe.hold_out:
        raise InputError("A floor needs held-out documents to measure; hold some out, or set the floor to 0.")
    if not choices:
        recipe = replace(recipe, choices_weight=0.0)
    base = min(256, recipe.size // 2) if recipe.base is None else recipe.base
    special = vocabulary.added_ids if recipe.keep_added else vocabulary.special_ids
    # The rule's own refusals come before hours of reading.
    select_ids({}, vocabulary.ids, special, recipe.size, base)

    texts = tally_corpus(corpus, vocabulary, recipe.fields, recipe.hold_out, advance)
    outputs = tally_choices(choices, vocabulary, recipe.fields, recipe.ids_field, recipe.hold_out, advance)
    weights = mix(texts.used, outputs.used, recipe.choices_weight)
    counts = {int(token): float(weights[token]) for token in weights.nonzero()[0]}
    ids = select_ids(counts, vocabulary.ids, special, recipe.size, base)

    groups = [
        *(measure(ids, texts.held_out) if corpus else []),
        *(measure(ids, outputs.held_out, "choices") if choices else []),
    ]
    thin = check_floor(groups, recipe.floor)
    tiles = tiling(recipe.size).warning
    manifest = _manifest(vocabulary, recipe, base, special, ids, texts, outputs, groups)
    warnings = (*([tiles] if tiles else []), *texts.warnings, *(thin if recipe.hold_out else []))
    return Built(tuple(ids), manifest, warnings)


def _manifest(
    vocabulary: Vocabulary,
    recipe: Recipe,
    base: int,
    special: tuple[int, ...],
    ids: list[int],
    texts: Tally,
    outputs: Tally,
    groups: list[Coverage],
) -> Manifest:
    tokens = int(texts.used.sum())
    return Manifest(
        model=vocabulary.model,
        model_vocab_size=vocabulary.model_vocab_size,
        tokenizer_vocab_size=len(vocabulary.ids),
        tokenizer_sha256=vocabulary.sha256,
        size=len(ids),
        base_count=base,
        special_ids=special,
        all_special_ids_included=set(vocabulary.special_ids) <= set(ids),
        ids_sha256=ids_sha256(ids),
        map_sha256=hashlib.sha256(map_bytes(ids)).hexdigest(),
        corpus_bytes=sum(row.bytes_used for row in texts.rows),
        corpus_tokens=tokens,
        corpus_coverage=int(texts.used[ids].sum()) / tokens if tokens else 0.0,
        corpus=(*texts.rows, *outputs.rows),
        evaluation_cases_used=recipe.evaluation_cases_used,
        corpus_source_revision=recipe.source_revision,
        choices_tokens=int(outputs.used.sum()),
        choices_weight=recipe.choices_weight,
        hold_out=recipe.hold_out,
        floor=recipe.floor,
        held_out=tuple(CoverageRow(g.source, g.kind, g.name, g.tokens, g.covered, g.share) for g in groups),
        builder=f"penny-spec {version('penny-spec')}",
    )
