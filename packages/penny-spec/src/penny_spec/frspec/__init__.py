"""FR-Spec draft-vocabulary maps: build one, look into it, check it, and say what it can cost.

A map is a list of token ids. The draft head keeps only these rows of the target's head, so that drafting reads fewer
bytes; verification still uses the whole vocabulary, so the output does not change. Source: FR-Spec,
arXiv 2502.14856.

| Module | Concept |
|---|---|
| `sources`, `streams`, `documents`, `choices` | files behind the inputs, their bytes, texts and recorded token ids |
| `vocabulary`, `counting`, `holdout`, `tally` | the tokenizer; counts for the selection and, apart, to measure |
| `mixture`, `selection`, `builder` | weights, the rule, the whole build |
| `coverage`, `loss` | share of held-out tokens that a map holds; what acceptance that can cost |
| `mapfile`, `manifest`, `tiling` | the two files; rows against GEMM tiles |
| `inspection`, `scripts`, `verification`, `comparison` | what the command shows |
| `calibration` | the acceptance that a server measured with a map |
| `shards`, `vocabularies` | a map under tensor parallelism; a draft's ids against the target's |
"""

from penny_spec.frspec.builder import Built, Recipe, build
from penny_spec.frspec.calibration import accepted_by_slot, calibrate
from penny_spec.frspec.comparison import Comparison, compare_maps
from penny_spec.frspec.coverage import Coverage, Labels, check_floor, measure
from penny_spec.frspec.documents import Fields
from penny_spec.frspec.errors import CoverageError, InputError, MapError
from penny_spec.frspec.inspection import Inspection, inspect_map
from penny_spec.frspec.loss import AcceptanceLoss, expected_acceptance_loss
from penny_spec.frspec.manifest import Manifest, manifest_path, read_manifest
from penny_spec.frspec.mapfile import check_ids, file_sha256, ids_sha256, load_map
from penny_spec.frspec.selection import select_ids
from penny_spec.frspec.shards import local_rows
from penny_spec.frspec.sources import Source, find_files, parse_source
from penny_spec.frspec.tiling import TILE, Tiling, tiling
from penny_spec.frspec.verification import verify_map
from penny_spec.frspec.vocabularies import VocabularyMatch, same_vocabulary
from penny_spec.frspec.vocabulary import Vocabulary, load_vocabulary

__all__ = [
    "TILE",
    "AcceptanceLoss",
    "Built",
    "Comparison",
    "Coverage",
    "CoverageError",
    "Fields",
    "InputError",
    "Inspection",
    "Labels",
    "Manifest",
    "MapError",
    "Recipe",
    "Source",
    "Tiling",
    "Vocabulary",
    "VocabularyMatch",
    "accepted_by_slot",
    "build",
    "calibrate",
    "check_floor",
    "check_ids",
    "compare_maps",
    "expected_acceptance_loss",
    "file_sha256",
    "find_files",
    "ids_sha256",
    "inspect_map",
    "load_map",
    "load_vocabulary",
    "local_rows",
    "manifest_path",
    "measure",
    "parse_source",
    "read_manifest",
    "same_vocabulary",
    "select_ids",
    "tiling",
    "verify_map",
]
