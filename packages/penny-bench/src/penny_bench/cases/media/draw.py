"""Pictures of plain shapes and words, with Pillow and its own font; videos with PyAV."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from functools import cache

from PIL import Image, ImageDraw, ImageFont

COLOURS = {
    "red": (214, 40, 40),
    "blue": (38, 84, 216),
    "green": (34, 148, 62),
    "yellow": (244, 204, 30),
    "purple": (136, 56, 168),
    "orange": (240, 132, 24),
}
SHAPES = ("circle", "square", "triangle", "star", "cross", "diamond")
INK, PAPER = (24, 24, 28), (255, 255, 255)

Point = tuple[float, float]


@cache
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own font."""
    return ImageFont.load_default(size)


def canvas(width: int, height: int, colour: tuple[int, int, int] = PAPER) -> Image.Image:
    """An empty picture."""
    return Image.new("RGB", (width, height), colour)


def shape(image: Image.Image, name: str, colour: str, centre: Point, radius: float) -> None:
    """Draw one of `SHAPES` in one of `COLOURS`, with a dark outline."""
    draw = ImageDraw.Draw(image)
    x, y = centre
    fill, width = COLOURS[colour], max(2, round(radius / 14))
    if name == "circle":
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill, outline=INK, width=width)
    else:
        draw.polygon([(x + radius * px, y + radius * py) for px, py in _outline(name)], fill, INK, width)


def word(image: Image.Image, text: str, centre: Point, size: int, colour: tuple[int, int, int] = INK) -> None:
    """Write a line of text around a point."""
    ImageDraw.Draw(image).text(centre, text, fill=colour, font=font(size), anchor="mm")


def line(
    image: Image.Image, points: Iterable[Point], width: int = 2, colour: tuple[int, int, int] = INK
) -> None:
    """Draw a line through points."""
    ImageDraw.Draw(image).line(list(points), fill=colour, width=width)


def box(image: Image.Image, corners: tuple[float, float, float, float], colour: tuple[int, int, int]) -> None:
    """Draw a filled box from its left upper to its right lower corner."""
    ImageDraw.Draw(image).rectangle(corners, fill=colour, outline=INK, width=2)


def png(image: Image.Image) -> bytes:
    """The bytes of a picture; the same for the same picture and version of Pillow."""
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=9)
    return file.getvalue()


def _outline(name: str) -> list[Point]:
    """Corners of a shape of radius 1 around 0."""
    if name == "square":
        return [(-0.86, -0.86), (0.86, -0.86), (0.86, 0.86), (-0.86, 0.86)]
    if name == "triangle":
        return [(0, -1), (0.92, 0.8), (-0.92, 0.8)]
    if name == "diamond":
        return [(0, -1), (0.72, 0), (0, 1), (-0.72, 0)]
    if name == "cross":
        a, b = 0.33, 0.95
        return [
            (-a, -b),
            (a, -b),
            (a, -a),
            (b, -a),
            (b, a),
            (a, a),
            (a, b),
            (-a, b),
            (-a, a),
            (-b, a),
            (-b, -a),
            (-a, -a),
        ]
    corners = []
    for i in range(10):
        r, angle = (1.0 if i % 2 == 0 else 0.42), math.pi * i / 5 - math.pi / 2
        corners.append((r * math.cos(angle), r * math.sin(angle)))
    return corners
