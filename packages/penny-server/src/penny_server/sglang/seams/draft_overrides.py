"""The draft model has config overrides of its own; stock gives it those of the target, which a draft cannot take."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from typing import Any

from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Seam

GET_CONFIG = "sglang.srt.utils.hf_transformers.config.get_config"
PATH_ENV = "PENNY_DRAFT_PATH"
"""Set by ``penny serve``: the folder of the draft model."""
OVERRIDES_ENV = "PENNY_DRAFT_OVERRIDES"
"""The draft's own overrides as a JSON object; none when not set."""


def _own_overrides(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    asked = inspect.signature(original).bind(*args, **kwargs)
    draft = os.environ.get(PATH_ENV)
    if draft and os.path.realpath(str(asked.arguments["model"])) == os.path.realpath(draft):
        asked.arguments["model_override_args"] = json.loads(os.environ.get(OVERRIDES_ENV) or "{}")
    return original(*asked.args, **asked.kwargs)


SEAMS = (
    Seam(
        "draft-overrides.config",
        "draft-overrides",
        GET_CONFIG,
        "fe60e8bb60b3dd97",
        "gives the draft model its own config overrides instead of the target's",
        "around",
        _own_overrides,
        lambda: hooked(GET_CONFIG),
    ),
)
