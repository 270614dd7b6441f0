"""Prompts and the works that they are made of."""

import ast
import hashlib
import lzma
import re
import unicodedata
from importlib.resources import files
from itertools import pairwise

import pytest

from penny_bench.text import (
    LANGUAGES,
    Gauge,
    distinct_tokens,
    head_line,
    language,
    passages,
    prompt,
    random_prompt,
    read_work,
    repeated,
    sample_prompts,
    works,
)

ONE = Gauge(0, (1.0,) * 8)
"""A server for which each character is one token."""


def test_the_works_are_those_of_the_readme() -> None:
    folder = files("penny_bench.text").joinpath("works")
    rows = re.findall(
        r"^\| `(\w+)` \| (\d+) \| `([0-9a-f]{64})` \|$", folder.joinpath("README.md").read_text(), re.M
    )
    assert [row[0] for row in rows] == list(works())
    for name, size, digest in rows:
        text = lzma.decompress(folder.joinpath(f"{name}.txt.xz").read_bytes())
        assert len(text) == int(size)
        assert hashlib.sha256(text).hexdigest() == digest


@pytest.mark.parametrize("name", works())
def test_nothing_of_an_edition_is_left(name: str) -> None:
    text = read_work(name)
    assert len(text) > 50_000
    assert not re.search(
        r"gutenberg|\be-?book|copyright|wikisource|aozora|青空文庫|https?:|www\.", text, re.I
    )
    strange = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Co", "Cn") and c != "\n"}
    assert not strange
    assert "\ufffd" not in text


def test_the_languages_are_what_they_say() -> None:
    scripts = {"ru": "CYRILLIC", "zh": "CJK", "ja": "HIRAGANA"}
    for code, text in zip(LANGUAGES, passages(), strict=True):
        assert len(text) == 1000
        letters = [c for c in text if c.isalpha()]
        script = scripts.get(code, "LATIN")
        assert sum(unicodedata.name(c).startswith(script) for c in letters) > 0.4 * len(letters), code
    common = {"en": " the ", "de": " und ", "fr": " les ", "es": " que ", "ru": " не "}
    for name in works():
        word = common.get(LANGUAGES[language(name)])
        assert word is None or read_work(name).count(word) > 100
    ast.parse(read_work("pennyroyal_py"))


def test_gauge_by_hand() -> None:
    # 20 tokens of head; 1,000 characters of each sample took 500 tokens beside it, of the last one 1,000.
    gauge = Gauge.of(20, [520] * 7 + [1020])
    assert gauge == Gauge(20, (0.5,) * 7 + (1.0,))


def test_samples_hold_a_piece_of_each_language() -> None:
    samples = sample_prompts(5)
    assert [text.removeprefix(head_line(5, 0)) for text in samples] == list(passages())


@pytest.mark.parametrize("number", range(22))
def test_a_prompt_runs_on_through_a_work(number: int) -> None:
    body = prompt(300, 1, number, ONE).removeprefix(head_line(1, number))
    assert len(body) == 300
    homes = [name for name in works() if body[:40] in read_work(name)]
    assert len(homes) == 1
    text = read_work(homes[0])
    start = text.index(body)
    assert start == 0 or text[start - 1] == "\n"  # at the beginning of a paragraph


def test_length_follows_the_rate_of_each_language() -> None:
    rates = (1.0, 0.5, 0.25, 0.5, 2.0, 4.0, 4.0, 0.5)
    gauge = Gauge(10, rates)
    seen = set()
    for number in range(len(works())):
        body = prompt(110, 1, number, gauge).removeprefix(head_line(1, number))
        home = next(name for name in works() if body in read_work(name))
        assert len(body) == 100 / rates[language(home)]
        seen.add(home)
    assert seen == set(works())  # as many prompts as works begin in each of them once
    assert prompt(5, 1, 2, gauge) == head_line(1, 2)


def test_long_prompts_use_every_work_once_before_any_comes_twice() -> None:
    total = sum(len(read_work(name)) for name in works())
    body = prompt(total, 3, 4, ONE).removeprefix(head_line(3, 4))
    for name in works():
        text = read_work(name)
        paragraphs = [line for line in text.split("\n") if len(line) > 60]
        for line in paragraphs[:: len(paragraphs) // 5]:
            assert body.count(line) == text.count(line)
    twice = prompt(2 * total, 3, 4, ONE).removeprefix(head_line(3, 4))
    assert len(twice) == 2 * total
    assert twice.count(body[:2000]) == 2


def test_the_share_that_is_repeated() -> None:
    total = sum(len(read_work(name)) for name in works())
    assert distinct_tokens(ONE) == total
    assert repeated(490_000, Gauge(0, (0.25,) * 8)) == 0.0
    assert repeated(4 * total, ONE) == pytest.approx(0.75)
    half = Gauge(100, (0.5,) * 8)
    assert repeated(total + 100, half) == pytest.approx(0.5)


def test_prompts_differ_from_their_first_line_on() -> None:
    made = [prompt(100, seed, number, ONE) for seed in range(3) for number in range(20)]
    assert len({text[:30] for text in made}) == len(made)
    assert len({text[-50:] for text in made}) > 50
    assert prompt(100, 1, 1, ONE) == prompt(100, 1, 1, ONE)


def test_random_prompts_are_words_out_of_order() -> None:
    text = random_prompt(4000, 1, 2, ONE)
    assert text.startswith(head_line(1, 2))
    words = text.removeprefix(head_line(1, 2)).split(" ")
    assert len(words) % 8 == 0
    assert 3000 < len(text) < 5000
    english = read_work("dubliners_en") + read_work("heart_of_darkness_en") + read_work("doctor_moreau_en")
    drawn = words[::8]
    assert all(word in english for word in drawn)
    following = sum(f"{one} {two}" in english for one, two in pairwise(drawn))
    assert following < 0.3 * len(drawn)
    assert text == random_prompt(4000, 1, 2, ONE) != random_prompt(4000, 1, 3, ONE)
