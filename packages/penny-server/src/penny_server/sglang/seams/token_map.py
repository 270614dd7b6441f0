"""The draft-vocabulary map (FR-Spec) as a server process loads it; stock takes any tensor for one.

`penny serve` compares the map with tokenizer and manifest before the start (``profiles/rules/token_map.py``). This is
the same reading in the process that uses it, whichever way the server was started.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Seam

LOAD = "sglang.srt.speculative.spec_utils.load_token_map"


def _checked(original: Callable[..., Any], token_map_path: str) -> Any:
    """Raises penny_spec.frspec.MapError; nothing in the file is executed."""
    from sglang.srt.runtime_context import get_server_args

    from penny_spec import frspec

    if Path(token_map_path).is_file():
        folder = Path(get_server_args().model_path)
        rows = frspec.load_vocabulary(folder).model_vocab_size if folder.is_dir() else None
        frspec.load_map(Path(token_map_path), rows)
    return original(token_map_path)


SEAMS = (
    Seam(
        "token-map.load",
        "token-map",
        LOAD,
        "e70c74cb4050b078",
        "checks form and range of a draft vocabulary before it is used",
        "around",
        _checked,
        lambda: hooked(LOAD),
        ("scheduler",),
    ),
)
