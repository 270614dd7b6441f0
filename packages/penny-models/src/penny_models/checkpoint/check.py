"""The check that runs before serving."""

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penny_models.checkpoint.errors import CheckpointError, counted, first_names
from penny_models.checkpoint.expected import Shapes, language_model_tensors, mtp_tensors
from penny_models.checkpoint.expected_draft import draft_tensors, is_draft
from penny_models.checkpoint.expected_next import (
    OPTIONAL_BUFFERS,
    NextForm,
    next_mtp_tensors,
    next_tensors,
)
from penny_models.checkpoint.files import read_json_object, read_tensors, require_tokenizer
from penny_models.checkpoint.fp8 import scale_tensors, weight_block
from penny_models.checkpoint.headers import TensorInfo
from penny_models.checkpoint.modelopt import is_modelopt, modelopt_tensors
from penny_models.checkpoint.text_config import parse_text_config, positive_int
from penny_models.checkpoint.vision import vision_tensors
from penny_models.shapes.text import Family, family_of, read_text

NGRAM_PARTS = 512
"""The shards of a PLE table where ``config.json`` does not say, SGLang's and transformers' default."""
FLOATS = ("BF16", "F16", "F32")


@dataclass(frozen=True)
class CheckpointReport:
    """A checkpoint that can be served.

    ``parameters`` and ``bytes`` count every tensor found; ``dtypes`` counts tensors by safetensors dtype
    name; ``warnings`` are sentences about what is odd but harmless.
    """

    path: str
    architecture: str
    shards: int
    tensors: int
    parameters: int
    bytes: int
    mtp_layers: int
    dtypes: dict[str, int]
    warnings: tuple[str, ...]


def _compare(folder: Path, found: dict[str, TensorInfo], expected: Shapes) -> None:
    missing = [name for name in expected if name not in found]
    if missing:
        raise CheckpointError(
            f"{folder} lacks {counted(missing, 'tensor')} of the {len(expected)} that config.json asks for: "
            f"{first_names(missing)}; fetch the checkpoint again, or correct config.json."
        )
    wrong = {name: shape for name, shape in expected.items() if found[name].shape != shape}
    if wrong:
        shown = first_names(
            [f"{name} is {list(found[name].shape)} and should be {list(wrong[name])}" for name in wrong]
        )
        raise CheckpointError(
            f"{folder} has {counted(wrong, 'tensor')} of another shape than config.json asks for: {shown}; "
            "weights and config.json belong to different models, so fetch both from one place."
        )


def _quantised_dtypes(
    config: dict[str, Any], modelopt: bool, block: tuple[int, int] | None
) -> tuple[str, ...]:
    """Return the dtypes that matrices may have besides floats; a PLE table can be FP8 by itself."""
    if modelopt:
        return ("F8_E4M3", "U8")
    text = config.get("text_config", config)
    table = str(text.get("ple_embedding_dtype") or "")
    return ("F8_E4M3",) if block is not None or table.startswith("float8") else ()


def _check_dtypes(
    folder: Path, found: dict[str, TensorInfo], expected: Shapes, quantised: tuple[str, ...]
) -> None:
    odd = {
        name: found[name].dtype
        for name, shape in expected.items()
        if found[name].dtype not in FLOATS and not (found[name].dtype in quantised and len(shape) == 2)
    }
    if odd:
        shown = first_names([f"{name} ({dtype})" for name, dtype in odd.items()])
        raise CheckpointError(
            f"{counted(odd, 'tensor')} of {folder} have an unexpected dtype: {shown}; expected "
            f"{', '.join(FLOATS)}, or quantised matrices with a quantization_config that says so; convert the "
            "weights, or correct config.json."
        )


def _language_tensors(
    config: dict[str, Any], where: Path, family: Family, prefix: str, found: Collection[str]
) -> tuple[Shapes, int]:
    """Return the tensors of language model and NEXTN layers, and the number of those layers."""
    if family == "qwen3_5":
        dense = parse_text_config(config, where)
        return language_model_tensors(dense, prefix) | mtp_tensors(dense), dense.mtp_layers
    shape = read_text(config, where)
    text = config.get("text_config", config)
    parts = positive_int(text, "split_ngram_parts", where) if "split_ngram_parts" in text else NGRAM_PARTS
    form = NextForm(found, parts)
    return next_tensors(shape, prefix, form) | next_mtp_tensors(shape, form), shape.mtp_layers


def _inspect_draft(folder: Path, config: dict[str, Any]) -> CheckpointReport:
    """Inspect a DFlash draft, which has no tokenizer of its own and may be written with a prefix ``model.``."""
    found, shards = read_tensors(folder)
    prefix = "model." if "model.fc.weight" in found else ""
    shapes = draft_tensors(config, folder / "config.json")
    expected = {f"{prefix}{name}": shape for name, shape in shapes.items()}
    _compare(folder, found, expected)
    _check_dtypes(folder, found, expected, ())
    return _report(folder, config, found, shards, 0, set(expected))


def _inspect(folder: Path) -> CheckpointReport:
    if not folder.is_dir():
        state = "is a file" if folder.exists() else "does not exist"
        raise CheckpointError(f"{folder} {state}; expected a checkpoint folder with config.json and weights.")
    where = folder / "config.json"
    config = read_json_object(where)
    if is_draft(config):
        return _inspect_draft(folder, config)
    family = family_of(config, where)
    architecture = str(config["architectures"][0])
    modelopt = is_modelopt(config)
    block = None if modelopt else weight_block(config, where)
    require_tokenizer(folder)
    found, shards = read_tensors(folder)

    vl_form = any(name.startswith("model.language_model.") for name in found)
    prefix = "model.language_model." if vl_form else "model."
    expected, mtp_layers = _language_tensors(config, where, family, prefix, found)
    vision = config.get("vision_config")
    if architecture.endswith("ForConditionalGeneration") and isinstance(vision, dict):
        needed = not config.get("language_model_only", False)
        tower = vision_tensors(vision, where)
        expected |= {name: shape for name, shape in tower.items() if needed or name in found}
    if modelopt:
        expected = modelopt_tensors(found, expected)
    _compare(folder, found, expected)
    scales = scale_tensors(found, expected, block)
    _compare(folder, found, scales)
    _check_dtypes(folder, found, expected | scales, _quantised_dtypes(config, modelopt, block))

    return _report(folder, config, found, shards, mtp_layers, {*expected, *scales})


def _report(
    folder: Path,
    config: dict[str, Any],
    found: dict[str, TensorInfo],
    shards: int,
    mtp_layers: int,
    used: Collection[str],
) -> CheckpointReport:
    extra = [name for name in found if name not in used and not name.endswith(OPTIONAL_BUFFERS)]
    warnings = [f"{counted(extra, 'tensor')} will not be used: {first_names(extra)}."] if extra else []
    return CheckpointReport(
        path=str(folder),
        architecture=str(config["architectures"][0]),
        shards=shards,
        tensors=len(found),
        parameters=sum(math.prod(info.shape) for info in found.values()),
        bytes=sum(info.bytes for info in found.values()),
        mtp_layers=mtp_layers,
        dtypes=dict(Counter(info.dtype for info in found.values())),
        warnings=tuple(warnings),
    )


def check_checkpoint(path: str | Path) -> CheckpointReport:
    """Check that a folder holds a whole Qwen3.5, Flash-Next or DFlash draft checkpoint; only headers and JSON are read.

    Checked: configuration, architecture, tokenizer (a draft has none), every shard's presence and length, and
    the name, shape and dtype of every tensor that ``config.json`` asks for, the NEXTN (MTP) layer included.
    Stock SGLang does not notice missing tensors. Tensors that nothing asks for only warn.

    Raises:
        CheckpointError: the checkpoint must not be served; the text is a full sentence.
    """
    folder = Path(path)
    try:
        return _inspect(folder)
    except OSError as error:
        raise CheckpointError(
            f"{folder} cannot be read ({error}); check its files and permissions."
        ) from error
