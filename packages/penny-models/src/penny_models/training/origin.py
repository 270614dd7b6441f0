"""Where a run was made, and from which data: what every ``results.json`` says of it."""

import json
import platform
from pathlib import Path
from typing import Any

import torch
import transformers


def origin(data: Path, device: torch.device) -> dict[str, Any]:
    """Return the device, the versions, and the hash of the training tokens of a data folder."""
    manifest = json.loads((data / "manifest.json").read_text())
    return {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or "cpu",
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "train_tokens_sha256": manifest["train_tokens_sha256"],
    }


def same_data(results: dict[str, Any], manifest: dict[str, Any]) -> None:
    """Raise ``ValueError`` unless a run was trained on the manifest's tokens; ``KeyError`` if it does not say."""
    trained = results["train_tokens_sha256"]
    if trained != manifest["train_tokens_sha256"]:
        raise ValueError(
            f"The run was trained on tokens with SHA-256 {trained[:12]}..., and the data folder's have "
            f"{manifest['train_tokens_sha256'][:12]}...; use the folder of the run."
        )


def same_split(checkpoint: Path, data: Path) -> None:
    """Raise ``ValueError`` unless a checkpoint may be trained further, and measured, with a data folder.

    The folder may be of another day, when its sources had other versions: a document is held out by the hash of its
    text, so under one rule no text that one folder holds out was ever trained on in the other. The tokenizer must
    be the same file.

    Args:
        checkpoint: A training run's output, which has no tokenizer: then the tokens must be the same; or a whole
            checkpoint.
        data: The data folder.
    """
    manifest = json.loads((data / "manifest.json").read_text())
    if not (checkpoint / "data_manifest.json").is_file():
        same_data(json.loads((checkpoint / "results.json").read_text()), manifest)
        return
    own = json.loads((checkpoint / "data_manifest.json").read_text())
    if (
        own["held_out_one_in"] != manifest["held_out_one_in"]
        or own["held_out_rule"] != manifest["held_out_rule"]
    ):
        raise ValueError(f"{checkpoint.name} was trained with another split into training and held-out text.")
    if (checkpoint / "tokenizer.json").read_bytes() != (data / "tokenizer" / "tokenizer.json").read_bytes():
        raise ValueError(f"The data folder's tokenizer is not that of {checkpoint.name}.")
