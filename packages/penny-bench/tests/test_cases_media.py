"""Media: what is drawn, read back from its pixels."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest

av = pytest.importorskip("av", reason="the extra penny-bench[media] is not installed")
Image = pytest.importorskip("PIL.Image", reason="the extra penny-bench[media] is not installed")

from drawn_media import drawn, media_of  # noqa: E402

from penny_bench.cases.media import NAMES, read_json  # noqa: E402
from penny_bench.cases.media.draw import COLOURS, SHAPES, canvas, shape  # noqa: E402

SEEDS = range(4)


def picture(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data)).convert("RGB")


def frames(data: bytes) -> list[Image.Image]:
    with av.open(io.BytesIO(data)) as container:
        return [frame.to_image() for frame in container.decode(video=0)]


def has(image: Image.Image, colour: str, slack: int = 0) -> int:
    """Pixels of a colour."""
    away = np.abs(np.asarray(image).astype(int) - np.array(COLOURS[colour])).max(axis=2)
    return int((away <= slack).sum())


# ---- what is drawn


def test_ten_scenarios_each_with_its_own_words_and_answers() -> None:
    assert len(NAMES) == 10
    scenarios = [drawn(name) for name in NAMES]
    assert [scenario.name for scenario in scenarios] == list(NAMES)
    assert [scenario.medium for scenario in scenarios].count("video") == 2
    for scenario in scenarios:
        assert "No. 1." in json.dumps(scenario.questions[0].added)
        assert media_of(scenario)
        assert all(bool(question.answer) != bool(question.call) for question in scenario.questions)


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_is_one_picture(name: str) -> None:
    assert drawn(name, 5) == drawn.__wrapped__(name, 5)
    assert media_of(drawn(name, 5)) != media_of(drawn(name, 6))
    assert drawn(name, 5).questions[-1] != drawn(name, 6).questions[-1]


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("video")])
def test_no_answer_stands_in_the_words(name: str) -> None:
    for seed in SEEDS:
        scenario = drawn(name, seed)
        words = " ".join(
            part["text"] if isinstance(part, dict) and part["type"] == "text" else ""
            for question in scenario.questions
            for message in question.added
            for part in (message["content"] if isinstance(message["content"], list) else ())
        )
        for question in scenario.questions:
            for due in question.answer.values():
                for one in due if isinstance(due, list) else [due]:
                    assert not isinstance(one, str) or "-" not in one or one not in words


def regions(image: Image.Image, colour: str) -> list[tuple[int, int, int, int, int]]:
    """Connected areas of a colour: left, top, right, bottom and pixels; an implementation of its own."""
    width, height = image.size
    pixels: Any = image.load()
    due, seen, found = COLOURS[colour], set(), []
    for y in range(0, height, 2):
        for x in range(0, width, 2):
            if pixels[x, y] != due or (x, y) in seen:
                continue
            stack, part = [(x, y)], []
            seen.add((x, y))
            while stack:
                px, py = stack.pop()
                part.append((px, py))
                for qx, qy in ((px + 2, py), (px - 2, py), (px, py + 2), (px, py - 2)):
                    if (
                        0 <= qx < width
                        and 0 <= qy < height
                        and (qx, qy) not in seen
                        and pixels[qx, qy] == due
                    ):
                        seen.add((qx, qy))
                        stack.append((qx, qy))
            if len(part) > 32:
                xs, ys = [p[0] for p in part], [p[1] for p in part]
                found.append((min(xs), min(ys), max(xs), max(ys), len(part)))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_shapes_are_as_many_and_where_the_answer_says(seed: int) -> None:
    scenario = drawn("shapes", seed)
    image, answer = picture(media_of(scenario)[0]), scenario.questions[0].answer
    assert len(regions(image, "red")) == answer["red shapes"]
    # The share of its bounding box that a form fills: square 1, circle pi / 4, triangle 1/2, star about 0.3.
    fills = {
        colour: [
            (4 * n / ((right - left + 2) * (bottom - top + 2)), left, top)
            for left, top, right, bottom, n in regions(image, colour)
        ]
        for colour in ("red", "blue", "green")
    }
    assert sum(fill > 0.9 for fill, _, _ in fills["blue"]) == answer["blue squares"]
    assert sum(0.68 < fill < 0.9 for some in fills.values() for fill, _, _ in some) == answer["circles"]
    (star, colour, x, y), (next_one, *_) = sorted(
        (fill, colour, x, y) for colour, some in fills.items() for fill, x, y in some
    )[:2]
    assert star < 0.42 < next_one
    assert colour == answer["star colour"]
    place = f"{'upper' if y < 300 else 'lower'} {'left' if x < 460 else 'right'}"
    assert place == answer["star place"]


@pytest.mark.parametrize("seed", SEEDS)
def test_bars_have_the_heights_of_the_answer(seed: int) -> None:
    scenario = drawn("chart", seed)
    image, answer = picture(media_of(scenario)[0]), dict(scenario.questions[0].answer)
    towns = ["Aldby", "Brenn", "Corvo", "Dunmar", "Elsau"]
    pixels: Any = image.load()
    heights = {}
    for number, town in enumerate(towns):
        column = [
            y for y in range(60, 541) if pixels[150 + 160 * number, y] == list(COLOURS.values())[number]
        ]
        heights[town] = 10 * round(len(column) / 45)
    assert answer.pop("most") == max(heights, key=heights.__getitem__)
    assert answer.pop("fewest") == min(heights, key=heights.__getitem__)
    ((town, value),) = answer.items()
    assert heights[town] == value


@pytest.mark.parametrize("seed", SEEDS)
def test_two_pictures_differ_in_one_colour(seed: int) -> None:
    scenario = drawn("compare", seed)
    one, two = (picture(data) for data in media_of(scenario))
    answer = scenario.questions[0].answer
    gone = [colour for colour in COLOURS if has(one, colour) > has(two, colour)]
    come = [colour for colour in COLOURS if has(two, colour) > has(one, colour)]
    assert (gone, come) == ([answer["first"]], [answer["second"]])
    alone = canvas(200, 200)
    shape(alone, answer["shape"], "red", (100, 100), 80)
    assert has(one, gone[0]) - has(two, gone[0]) == pytest.approx(has(alone, "red"), rel=0.02)


def test_the_detail_is_small_and_there() -> None:
    (data,) = media_of(drawn("detail"))
    image = picture(data)
    assert image.size == (2400, 1600)
    white = [n for n, colour in image.getcolors(1 << 24) if colour == (255, 255, 255)]  # type: ignore[union-attr]
    assert 4000 < sum(white) < 0.005 * 2400 * 1600


def test_pictures_of_a_conversation_come_in_their_order() -> None:
    scenario = drawn("order")
    images = [picture(data) for data in media_of(scenario)]
    assert len(images) == 3
    assert has(images[1], scenario.questions[0].answer["second colour"]) > 50_000
    roles = [message["role"] for message in scenario.questions[0].added]
    assert roles == ["user", "assistant"] * 3 + ["user"]


def test_a_picture_far_back() -> None:
    scenario = drawn("history")
    assert len(scenario.questions) == 3
    first = scenario.questions[0].added
    assert [message["role"] for message in first] == ["user", "assistant"] * 3 + ["user"]
    assert "second text" in first[4]["content"]
    assert read_json(scenario.questions[0].reply) == scenario.questions[0].answer
    assert has(picture(media_of(scenario)[0]), scenario.questions[1].answer["colour"]) > 20_000


@pytest.mark.parametrize("seed", SEEDS)
def test_a_video_shows_its_shapes_in_the_order_of_the_answer(seed: int) -> None:
    scenario = drawn("video-order", seed)
    pictures = frames(media_of(scenario)[0])
    assert len(pictures) == 64
    answer = scenario.questions[0].answer
    for place, colour in enumerate(answer["colours"]):
        counts = {name: has(pictures[16 * place + 8], name, 24) for name in COLOURS}
        assert max(counts, key=counts.__getitem__) == colour
    assert len(set(answer["shapes"])) == 4


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_a_video_shows_its_event_at_the_second_of_the_answer(seed: int) -> None:
    scenario = drawn("video-time", seed)
    pictures = frames(media_of(scenario)[0])
    assert len(pictures) == 14 * 8
    counts = [max(has(image, name, 24) for name in COLOURS) for image in pictures]
    shown = [number for number, count in enumerate(counts) if count > 3000]
    assert shown == list(range(shown[0], shown[0] + 16))
    assert shown[0] / 8 == scenario.questions[0].answer["second"]
    assert scenario.questions[0].tolerance == {"second": 1.0}


def test_every_shape_has_another_outline() -> None:
    areas = []
    for name in SHAPES:
        image = canvas(200, 200)
        shape(image, name, "green", (100, 100), 80)
        areas.append(has(image, "green"))
    assert len(set(areas)) == len(SHAPES)
