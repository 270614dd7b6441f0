"""Scenarios with pictures in one request."""

from __future__ import annotations

from random import Random
from typing import Any

from penny_bench.cases.media.draw import COLOURS, SHAPES, box, canvas, line, png, shape, word
from penny_bench.cases.media.model import Call, Question, Scenario, picture_part, text_part, user

LETTERS, DIGITS = "ABCDEFGHJKLMNPRTUVWXY", "2346789"
GOODS = ("Lamp oil", "Rope", "Sail cloth", "Copper nails", "Tar", "Lanterns", "Brushes", "Canvas bags")
TOWNS = ("Aldby", "Brenn", "Corvo", "Dunmar", "Elsau")


def code(draw: Random) -> str:
    """Letters and digits that cannot be guessed and do not look alike."""
    return (
        "".join(draw.choices(LETTERS, k=2)) + "-" + "".join(draw.choices(DIGITS, k=4)) + draw.choice(LETTERS)
    )


def printed_text(draw: Random, first_line: str) -> Scenario:
    """Four printed lines are read."""
    lines = [f"{draw.choice(GOODS).upper()} {code(draw)}" for _ in range(4)]
    image = canvas(1000, 440)
    for number, text in enumerate(lines):
        word(image, text, (500, 80 + 94 * number), 52)
    asked = (
        'Read the four printed lines. Answer with nothing but JSON: {"lines": ["...", "...", "...", "..."]}.'
    )
    return _one("text", "printed text", png(image), first_line + asked, {"lines": lines})


def shapes(draw: Random, first_line: str) -> Scenario:
    """Shapes are counted and told apart by colour and place."""
    image = canvas(960, 640)
    cells = [(column, row) for column in range(6) for row in range(4)]
    draw.shuffle(cells)
    star = next(cell for cell in cells)
    cells.remove(star)
    colours = ("red", "blue", "green")
    placed = [
        (cell, draw.choice(SHAPES[:3]), draw.choice(colours)) for cell in cells[: draw.randrange(12, 18)]
    ]
    star_colour = draw.choice(colours)
    for (column, row), name, colour in [*placed, (star, "star", star_colour)]:
        centre = (80 + 160 * column + draw.uniform(-14, 14), 80 + 160 * row + draw.uniform(-14, 14))
        shape(image, name, colour, centre, draw.uniform(38, 58))
    place = ("upper" if star[1] < 2 else "lower") + " " + ("left" if star[0] < 3 else "right")
    answer = {
        "circles": sum(name == "circle" for _, name, _ in placed),
        "blue squares": sum((name, colour) == ("square", "blue") for _, name, colour in placed),
        "red shapes": sum(colour == "red" for _, _, colour in placed) + (star_colour == "red"),
        "star colour": star_colour,
        "star place": place,
    }
    asked = (
        "Count the circles of any colour, the blue squares, and the red shapes of any form (the star is a "
        "shape too). There is one star: what is its colour, and in which quarter of the picture is it (upper "
        'left, upper right, lower left or lower right)? Answer with nothing but JSON: {"circles": 0, "blue '
        'squares": 0, "red shapes": 0, "star colour": "...", "star place": "..."}.'
    )
    return _one("shapes", "counts, colours and places of shapes", png(image), first_line + asked, answer)


def chart(draw: Random, first_line: str) -> Scenario:
    """Values are read off a bar chart."""
    values = draw.sample(range(1, 10), len(TOWNS))
    image = canvas(960, 620)
    word(image, "Visitors in thousands", (480, 36), 32)
    for tick in range(11):
        y = 540 - 45 * tick
        line(image, [(100, y), (920, y)], 1, (190, 190, 196))
        word(image, str(10 * tick), (66, y), 24)
    for number, (town, value) in enumerate(zip(TOWNS, values, strict=True)):
        x = 180 + 160 * number
        box(image, (x - 44, 540 - 45 * value, x + 44, 540), list(COLOURS.values())[number])
        word(image, town, (x, 572), 26)
    asked_of = draw.choice(TOWNS)
    answer = {
        "most": TOWNS[values.index(max(values))],
        "fewest": TOWNS[values.index(min(values))],
        asked_of: 10 * values[TOWNS.index(asked_of)],
    }
    asked = (
        f"Which town has the most visitors, which the fewest, and how many thousands has {asked_of}? Answer "
        f'with nothing but JSON: {{"most": "...", "fewest": "...", "{asked_of}": 0}}.'
    )
    return _one("chart", "a bar chart", png(image), first_line + asked, answer)


def compare(draw: Random, first_line: str) -> Scenario:
    """Two pictures differ in the colour of one shape."""
    colours = [draw.choice(list(COLOURS)) for _ in SHAPES]
    changed = draw.randrange(len(SHAPES))
    after = list(colours)
    after[changed] = draw.choice([colour for colour in COLOURS if colour != colours[changed]])
    places = [(130 + 260 * (i % 3), 130 + 240 * (i // 3)) for i in range(len(SHAPES))]
    draw.shuffle(places)
    images = []
    for some in (colours, after):
        image = canvas(780, 500)
        for name, colour, place in zip(SHAPES, some, places, strict=True):
            shape(image, name, colour, place, 80)
        images.append(png(image))
    asked = (
        "These two pictures differ in one thing: one shape has another colour. Which shape (circle, square, "
        "triangle, star, cross or diamond), and which colour has it in the first and in the second picture? "
        "The colours are red, blue, green, yellow, purple and orange. Answer with nothing but JSON: "
        '{"shape": "...", "first": "...", "second": "..."}.'
    )
    message = user(text_part(first_line + "Look at both."), *map(picture_part, images), text_part(asked))
    answer = {"shape": SHAPES[changed], "first": colours[changed], "second": after[changed]}
    return Scenario("compare", "two pictures with one difference", "image", (Question((message,), answer),))


def detail(draw: Random, first_line: str) -> Scenario:
    """A small plate is read in a large picture."""
    image = canvas(2400, 1600, (236, 238, 232))
    for _ in range(130):
        centre = (draw.uniform(0, 2400), draw.uniform(0, 1600))
        shape(image, draw.choice(SHAPES), draw.choice(list(COLOURS)), centre, draw.uniform(14, 60))
    text = code(draw)
    x, y = draw.uniform(200, 2200), draw.uniform(120, 1480)
    box(image, (x - 90, y - 26, x + 90, y + 26), (255, 255, 255))
    word(image, text, (x, y), 30)
    asked = (
        'Among the shapes there is one white plate with a code on it. Answer with nothing but JSON: {"code": '
        '"..."}.'
    )
    return _one("detail", "a small detail in a large picture", png(image), first_line + asked, {"code": text})


def invoice(draw: Random, first_line: str) -> Scenario:
    """A line of a table goes into a tool call."""
    rows = [(name, draw.randrange(2, 60), draw.randrange(125, 9900) / 100) for name in draw.sample(GOODS, 6)]
    image = canvas(1000, 560)
    word(image, f"Invoice {code(draw)}", (500, 44), 34)
    for x, title in ((240, "Item"), (560, "Quantity"), (820, "Unit price")):
        word(image, title, (x, 108), 28)
    line(image, [(60, 136), (940, 136)], 3)
    for number, (name, quantity, price) in enumerate(rows):
        y = 172 + 60 * number
        word(image, name, (240, y), 30)
        word(image, str(quantity), (560, y), 30)
        word(image, f"{price:.2f}", (820, y), 30)
        line(image, [(60, y + 30), (940, y + 30)], 1)
    name, quantity, price = draw.choice(rows)
    properties: dict[str, Any] = {
        "item": {"type": "string", "description": "The item as the invoice names it."},
        "quantity": {"type": "integer", "description": "How many."},
        "unit_price": {"type": "number", "description": "Price of one."},
    }
    function = {
        "name": "book_line",
        "description": "Book one line of an invoice.",
        "parameters": {"type": "object", "properties": properties, "required": list(properties)},
    }
    asked = (
        f"Book the line of this invoice with the item {name!r}, with the tool book_line. Book no other line."
    )
    message = user(text_part(first_line), picture_part(png(image)), text_part(asked))
    call = Call("book_line", {"item": name, "quantity": quantity, "unit_price": price})
    return Scenario(
        "invoice",
        "a table, and a tool call with what stands in it",
        "image",
        (Question((message,), call=call),),
        ({"type": "function", "function": function},),
    )


def _one(name: str, theme: str, picture: bytes, asked: str, answer: dict[str, Any]) -> Scenario:
    message = user(picture_part(picture), text_part(asked))
    return Scenario(name, theme, "image", (Question((message,), answer),))
