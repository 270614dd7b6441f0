"""Put a trained run together as a checkpoint folder."""

import json
import shutil
from pathlib import Path

from penny_models.checkpoint import CheckpointReport, check_checkpoint
from penny_models.training.card import write_card, write_draft_card
from penny_models.training.data import write_json
from penny_models.training.origin import same_data
from penny_models.training.plot import draw_loss_curve
from penny_models.training.processors import generation_config, image_processor_config, video_processor_config
from penny_models.training.recipes import recipe


def _copy(files: list[Path], checkpoint: Path) -> None:
    """Copy files in place of the weights that are there, if all of them exist."""
    if missing := [file.name for file in files if not file.is_file()]:
        raise FileNotFoundError(f"The training run lacks {', '.join(missing)}; nothing was installed.")
    checkpoint.mkdir(parents=True, exist_ok=True)
    for old in checkpoint.glob("*.safetensors"):
        old.unlink()
    for file in files:
        shutil.copyfile(file, checkpoint / file.name)


def install(data: Path, out: Path, checkpoint: Path) -> CheckpointReport:
    """Fill ``checkpoint`` from the data folder and a training run, and check the result.

    Written besides weights, configuration and tokenizer: ``CARD.md``, ``results.json``, ``loss_curve.json``,
    ``loss_curve.png`` and ``data_manifest.json``; none of them holds text of the corpus.
    """
    results = json.loads((out / "results.json").read_text())
    manifest = json.loads((data / "manifest.json").read_text())
    same_data(results, manifest)
    records = [out / name for name in ("model.safetensors.index.json", "results.json", "loss_curve.json")]
    records += out.glob("nextn_curve.json")
    _copy([*(data / "tokenizer").iterdir(), *out.glob("*.safetensors"), *records], checkpoint)
    write_json(checkpoint / "config.json", recipe(results["name"]).config())
    write_json(checkpoint / "generation_config.json", generation_config())
    write_json(checkpoint / "preprocessor_config.json", image_processor_config())
    write_json(checkpoint / "video_preprocessor_config.json", video_processor_config())
    write_json(checkpoint / "data_manifest.json", manifest, indent=1)  # long lists, and every byte travels
    draw_loss_curve(checkpoint / "loss_curve.json", checkpoint / "loss_curve.png", results["name"])
    (checkpoint / "CARD.md").write_text(write_card(results, manifest), encoding="utf-8")
    return check_checkpoint(checkpoint)


def install_nextn(out: Path, checkpoint: Path) -> CheckpointReport:
    """Put the NEXTN stage's weights and records into the checkpoint that it started from, and check the result.

    Raises:
        ValueError: the run trained another checkpoint.
    """
    results = json.loads((out / "results.json").read_text())
    before = json.loads((checkpoint / "results.json").read_text())
    if any(results[key] != before[key] for key in ("name", "seed", "steps", "train_tokens_sha256")):
        raise ValueError(f"{out.name} did not start from {checkpoint.name}.")
    records = ("model.safetensors.index.json", "results.json", "nextn_curve.json")
    _copy([*out.glob("*.safetensors"), *(out / name for name in records)], checkpoint)
    manifest = json.loads((checkpoint / "data_manifest.json").read_text())
    (checkpoint / "CARD.md").write_text(write_card(results, manifest), encoding="utf-8")
    return check_checkpoint(checkpoint)


def install_draft(out: Path, checkpoint: Path) -> None:
    """Fill ``checkpoint`` from the training run of a DFlash2 draft: weights, configuration, card and records."""
    results = json.loads((out / "results.json").read_text())
    config = json.loads((out / "config.json").read_text())
    records = ("config.json", "results.json", "loss_curve.json", "model.safetensors.index.json")
    _copy([*out.glob("*.safetensors"), *(out / name for name in records)], checkpoint)
    draw_loss_curve(checkpoint / "loss_curve.json", checkpoint / "loss_curve.png", results["name"])
    (checkpoint / "CARD.md").write_text(write_draft_card(results, config), encoding="utf-8")
