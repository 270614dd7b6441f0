"""Full-size configs with the sizes of the public facts, for planning before a checkpoint is there.

They are no copies of the checkpoints' files: a checkpoint's own ``config.json`` is right where they differ. The rank
of the DFlash2 selector is the one that gives the draft its published 3.85 GB.
"""

import json
from importlib.resources import files
from typing import Any

from penny_models.checkpoint.errors import CheckpointError

_FOLDER = "configs"


def known_names() -> tuple[str, ...]:
    """The names of the shipped configs, sorted."""
    folder = files("penny_models.shapes").joinpath(_FOLDER)
    return tuple(sorted(f.name.removesuffix(".json") for f in folder.iterdir() if f.name.endswith(".json")))


def known_config(name: str) -> dict[str, Any]:
    """A shipped config by name, parsed; ``CheckpointError`` names all when there is none of this name."""
    if name not in known_names():
        raise CheckpointError(
            f"There is no shipped config named {name!r}; shipped: {', '.join(known_names())}."
        )
    text = files("penny_models.shapes").joinpath(_FOLDER, f"{name}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
