"""A tiny Flash-Next checkpoint with random weights, for as long as no trained one is shipped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch

from penny_models import tiny

BORROWED = (
    "generation_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
)
"""Files of tiny-27b, whose vocabulary it shares."""


def write_random(folder: Path) -> Path:
    """Writes the checkpoint into ``folder``, the same at every call, and returns the folder.

    What a new model starts at zero is random too, so that no path through it is silent. Wide embeddings and a wide
    head keep the logits of a position apart: greedy tokens are then not decided by rounding. The training code is no
    interface of penny-models; a test of the same commit may use it.
    """
    from penny_models.training.export import write_checkpoint
    from penny_models.training.next.config import model_config
    from penny_models.training.next.model import TinyNext

    torch.manual_seed(0)
    model = TinyNext()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim >= 2 and not parameter.any():
                parameter.normal_(std=0.05)
            if "embed_tokens" in name:
                parameter.normal_(std=1.0)
            if "lm_head" in name:
                parameter.normal_(std=0.3)
    write_checkpoint(model, folder)
    (folder / "config.json").write_text(json.dumps(model_config(), indent=2))
    for name in BORROWED:
        shutil.copyfile(tiny.path("tiny-27b") / name, folder / name)
    return folder
