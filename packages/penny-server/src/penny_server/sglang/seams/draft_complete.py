"""A DFlash draft gets a tensor for each of its parameters; stock skips unknown names and counts none.

`penny serve` looks at the draft's files before the start. This is the same rule where they are loaded, by the module's
own parameters, whichever way the server was started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penny_server.events import emit
from penny_server.sglang.draft_names import refusal
from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Seam

LOAD = "sglang.srt.models.dflash.DFlashDraftModel.load_weights"
EXIT_CHECKPOINT = 4
DONE = "_penny_complete"


class IncompleteDraftError(RuntimeError):
    """The draft's checkpoint is not that of its module."""


def _complete(original: Callable[..., Any], model: Any, weights: Iterable[tuple[str, Any]]) -> Any:
    """Raises IncompleteDraftError. Later calls update a whole model, with as many tensors as they like."""
    if getattr(model, DONE, False):
        return original(model, weights)
    found: list[str] = []

    def noted() -> Iterator[tuple[str, Any]]:
        for name, tensor in weights:
            found.append(name)
            yield name, tensor

    result = original(model, noted())
    message = refusal((name for name, _ in model.named_parameters()), found)
    if message:
        emit("weights", "fail", message=message, exit_code=EXIT_CHECKPOINT)
        raise IncompleteDraftError(message)
    setattr(model, DONE, True)
    return result


SEAMS = (
    Seam(
        "draft-complete.tensors",
        "draft-complete",
        LOAD,
        "47b40b19d319919a",
        "refuses a DFlash draft with missing or unknown tensors",
        "around",
        _complete,
        lambda: hooked(LOAD),
        ("scheduler",),
    ),
)
