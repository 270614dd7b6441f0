"""Prompts."""

from penny_bench.text import Gauge, head_line, passages, prompt, sample_prompts


def test_passages_are_whole_and_different() -> None:
    texts = passages()
    assert len(texts) == 8
    assert all(len(text) > 300 for text in texts)
    assert len({text[:20] for text in texts}) == 8
    assert any("茶馆" in text for text in texts)


def test_gauge_by_hand() -> None:
    # 20 tokens of head; 200 characters of each passage took 120 tokens with it, of the last one 220.
    gauge = Gauge.of(20, [120] * 7 + [220])
    assert gauge == Gauge(20, (0.5,) * 7 + (1.0,))


def test_samples_hold_a_piece_of_each_passage() -> None:
    samples = sample_prompts(5)
    assert [text.removeprefix(head_line(5, 0)) for text in samples] == [text[:200] for text in passages()]


def test_length_follows_the_rate_of_each_passage() -> None:
    rates = (1.0, 0.5, 0.25, 0.5, 1.0, 0.5, 0.5, 0.5)
    gauge = Gauge(10, rates)
    # 50 tokens beyond the head: 50 characters of passage 0, 100 of passage 1, 200 of passage 2.
    for number, characters in ((0, 50), (1, 100), (2, 200)):
        head = head_line(1, number)
        assert prompt(60, 1, number, gauge) == head + (passages()[number])[:characters]
    assert prompt(5, 1, 2, gauge) == head_line(1, 2)


def test_long_prompts_go_on_with_the_next_passage() -> None:
    gauge = Gauge(0, (1.0,) * 8)
    one, two = (text + "\n\n" for text in passages()[:2])
    body = prompt(len(one) + 50, 1, 0, gauge).removeprefix(head_line(1, 0))
    assert body == one + two[:50]
    assert len(prompt(50_000, 1, 0, gauge)) == 50_000 + len(head_line(1, 0))


def test_prompts_differ_from_their_first_line_on() -> None:
    gauge = Gauge(0, (0.25,) * 8)
    made = [prompt(100, seed, number, gauge) for seed in range(3) for number in range(20)]
    assert len({text[:30] for text in made}) == len(made)
    assert len({text[-50:] for text in made[:8]}) == 8
