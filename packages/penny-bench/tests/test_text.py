"""Prompts."""

from penny_bench.text import passages, prompt


def test_passages_are_whole_and_different() -> None:
    texts = passages()
    assert len(texts) == 8
    assert all(len(text) > 300 for text in texts)
    assert len({text[:20] for text in texts}) == 8
    assert any("茶馆" in text for text in texts)


def test_prompts_have_the_length_asked_for() -> None:
    for characters in (200, 5_000, 50_000):
        assert len(prompt(characters, 1, 2)) == characters
    assert prompt(1, 1, 2).startswith("No. 2 of series 1.")


def test_prompts_differ_from_their_first_line_on() -> None:
    made = [prompt(400, seed, number) for seed in range(3) for number in range(20)]
    assert len({text[:30] for text in made}) == len(made)
    assert prompt(400, 1, 2) == prompt(400, 1, 2)


def test_prompts_begin_with_different_passages() -> None:
    assert len({prompt(400, 1, number)[-50:] for number in range(8)}) == 8
