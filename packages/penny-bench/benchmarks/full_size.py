"""Make a model folder of a full-size shape without weights, for a server with `--load-format dummy`.

    python full_size.py CONFIG TOKENIZER_FOLDER OUT

CONFIG is a config.json; the tokenizer and processor files come from TOKENIZER_FOLDER, a small checkpoint of the same
family. Its vocabulary is filled up with made-up words to the size of the shape, so that every token that random weights
give has a text. Rates of such a server mean something where they depend on shapes alone; its words mean nothing.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

LEFT_OUT = (
    "config.json",
    "generation_config.json",
    "model",
    "data_manifest",
    "loss_curve",
    "results",
    "CARD",
)


def main(config_file: Path, source: Path, out: Path) -> None:
    """See the module."""
    out.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if not file.name.startswith(LEFT_OUT):
            shutil.copy(file, out / file.name)
    config: dict[str, Any] = json.loads(config_file.read_text())
    small: dict[str, Any] = json.loads((source / "config.json").read_text())
    text = config.get("text_config", config)
    for key in ("bos_token_id", "eos_token_id"):
        text[key] = small["text_config"][key]
    for key in ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"):
        if key in small:
            config[key] = small[key]
    config["language_model_only"] = True  # random weights see nothing
    if "vision_config" in small:
        config.setdefault("vision_config", {**small["vision_config"], "out_hidden_size": text["hidden_size"]})
    (out / "config.json").write_text(json.dumps(config, indent=1))
    tokenizer: dict[str, Any] = json.loads((source / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    # Else they would get numbers behind the made-up words.
    vocabulary.update({token["content"]: token["id"] for token in tokenizer["added_tokens"]})
    used = set(vocabulary.values())
    for number in range(text["vocab_size"]):
        if number not in used:
            vocabulary[f"\u0120w{number}"] = number
    (out / "tokenizer.json").write_text(json.dumps(tokenizer))
    print(f"{out}: {text['vocab_size']} tokens, {text['vocab_size'] - len(used)} of them made up")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
