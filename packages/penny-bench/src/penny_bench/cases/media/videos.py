"""Scenarios with a video."""

from __future__ import annotations

from random import Random

from PIL import Image

from penny_bench.cases.media.draw import COLOURS, SHAPES, canvas, shape
from penny_bench.cases.media.film import RATE, mp4
from penny_bench.cases.media.model import Question, Scenario, text_part, user, video_part

SIZE = (448, 336)
SCENE = 2
"""Length of a scene, s."""
LENGTH = 14
"""Length of the video with an event, s."""


def event_order(draw: Random, first_line: str) -> Scenario:
    """Four shapes come one after another."""
    shapes, colours = draw.sample(SHAPES, 4), draw.sample(list(COLOURS), 4)
    pictures: list[Image.Image] = []
    for name, colour in zip(shapes, colours, strict=True):
        for number in range(SCENE * RATE):
            image = canvas(*SIZE)
            shape(image, name, colour, (SIZE[0] / 2 + 8 * (number % 4), SIZE[1] / 2), 120)
            pictures.append(image)
    asked = (
        "Four shapes come one after another in this video. Name them in this order (circle, square, "
        "triangle, star, cross, diamond), and their colours (red, blue, green, yellow, purple, orange). "
        'Answer with nothing but JSON: {"shapes": ["...", "...", "...", "..."], "colours": ["...", "...", '
        '"...", "..."]}.'
    )
    message = user(video_part(mp4(pictures)), text_part(first_line + asked))
    answer = {"shapes": shapes, "colours": colours}
    return Scenario("video-order", "the order of events in a video", "video", (Question((message,), answer),))


def event_time(draw: Random, first_line: str) -> Scenario:
    """A shape shows up at some second of a video."""
    second, name, colour = draw.randrange(3, LENGTH - 3), draw.choice(SHAPES), draw.choice(list(COLOURS))
    pictures = []
    for number in range(LENGTH * RATE):
        image = canvas(*SIZE, (222, 224, 228))
        shape(image, "circle", "blue" if colour != "blue" else "green", (24 + 3.5 * number, 310), 12)
        if second * RATE <= number < (second + 2) * RATE:
            shape(image, name, colour, (SIZE[0] / 2, 140), 110)
        pictures.append(image)
    asked = (
        "A small dot runs along the lower edge of this video. At some time a large shape shows up above it "
        f"for two seconds. The video is {LENGTH} seconds long. Which shape is it (circle, square, triangle, "
        "star, cross or diamond), and after how many seconds does it show up? Answer with nothing but JSON: "
        f'{{"shape": "...", "second": 0}}.'
    )
    message = user(video_part(mp4(pictures)), text_part(first_line + asked))
    question = Question((message,), {"shape": name, "second": second}, tolerance={"second": 1.0})
    return Scenario("video-time", "the time of an event in a video", "video", (question,))
