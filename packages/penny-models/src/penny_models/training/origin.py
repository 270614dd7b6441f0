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
