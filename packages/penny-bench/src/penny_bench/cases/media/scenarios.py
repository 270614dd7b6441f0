"""All scenarios, drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from penny_bench.cases.media.draw import canvas, png, shape
from penny_bench.cases.media.film import mp4
from penny_bench.cases.media.model import Scenario
from penny_bench.cases.media.pictures import chart, compare, detail, invoice, printed_text, shapes
from penny_bench.cases.media.talks import history, order
from penny_bench.cases.media.videos import event_order, event_time

Draw = Callable[[Random, str], Scenario]

PLAIN: dict[str, Draw] = {
    "text": printed_text,
    "shapes": shapes,
    "chart": chart,
    "compare": compare,
    "detail": detail,
    "invoice": invoice,
    "order": order,
    "video-order": event_order,
    "video-time": event_time,
}


def draw_scenario(name: str, seed: int, first_line: str, texts: Sequence[str]) -> Scenario:
    """A scenario by its name.

    Args:
        name: one of `NAMES`.
        seed: the same seed draws the same pictures.
        first_line: makes its words differ from all sent before.
        texts: between picture and questions, for `history`.
    """
    draw = Random(f"media {seed} {name}")
    return history(draw, first_line, texts) if name == "history" else PLAIN[name](draw, first_line)


def probe_picture() -> bytes:
    """A small picture, to ask whether a server takes pictures."""
    image = canvas(128, 128)
    shape(image, "circle", "red", (64, 64), 40)
    return png(image)


def probe_video() -> bytes:
    """A short video, to ask whether a server takes videos."""
    return mp4([canvas(128, 128)] * 16)
