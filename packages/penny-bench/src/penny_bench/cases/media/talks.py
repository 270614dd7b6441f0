"""Scenarios with pictures in a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from penny_bench.cases.media.draw import COLOURS, PAPER, SHAPES, box, canvas, png, shape, word
from penny_bench.cases.media.model import Message, Question, Scenario, picture_part, text_part, user
from penny_bench.cases.media.pictures import code

SEEN: Message = {"role": "assistant", "content": "I have seen it."}
READ: Message = {"role": "assistant", "content": "I have read it."}


def order(draw: Random, first_line: str) -> Scenario:
    """Three pictures come one after another; then their order is asked for."""
    colours, numbers = draw.sample(list(COLOURS), 3), draw.sample(range(100, 1000), 3)
    history: list[Message] = []
    for place, (colour, number) in enumerate(zip(colours, numbers, strict=True)):
        image = canvas(420, 420, COLOURS[colour])
        box(image, (70, 130, 350, 290), PAPER)
        word(image, str(number), (210, 210), 110)
        told = (
            "Remember this picture."
            if place
            else first_line + "You will see three pictures. Remember this one."
        )
        history += [user(picture_part(png(image)), text_part(told)), SEEN]
    asked = (
        "Which number stood on the first, on the second and on the third picture, and which colour had the "
        'second one? Answer with nothing but JSON: {"first": 0, "second": 0, "third": 0, "second colour": '
        '"..."}.'
    )
    answer = {"first": numbers[0], "second": numbers[1], "third": numbers[2], "second colour": colours[1]}
    question = Question((*history, user(text_part(asked))), answer)
    return Scenario("order", "the order of pictures in a conversation", "image", (question,))


def history(draw: Random, first_line: str, texts: Sequence[str]) -> Scenario:
    """A picture is followed by long texts; then three questions about it follow one another."""
    colour, name, sign = draw.choice(list(COLOURS)), draw.choice(SHAPES), code(draw)
    image = canvas(640, 640)
    shape(image, name, colour, (320, 250), 190)
    word(image, sign, (320, 560), 64)
    added: list[Message] = [
        user(
            picture_part(png(image)),
            text_part(first_line + "Remember this picture. Some texts follow; then I ask about it."),
        ),
        SEEN,
    ]
    for text in texts:
        added += [{"role": "user", "content": f"Read this text.\n\n{text}"}, READ]
    only = "Answer with nothing but JSON: "
    questions = (
        Question(
            (
                *added,
                {"role": "user", "content": f'Which shape did the picture show? {only}{{"shape": "..."}}.'},
            ),
            {"shape": name},
            reply=f'{{"shape": "{name}"}}',
        ),
        Question(
            ({"role": "user", "content": f'Which colour had the shape? {only}{{"colour": "..."}}.'},),
            {"colour": colour},
            reply=f'{{"colour": "{colour}"}}',
        ),
        Question(
            ({"role": "user", "content": f'Which code stood below it? {only}{{"code": "..."}}.'},),
            {"code": sign},
        ),
    )
    return Scenario("history", "questions about a picture far back in a conversation", "image", questions)
