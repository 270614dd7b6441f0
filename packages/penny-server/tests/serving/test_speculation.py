"""Speculation on the CPU, in float32: greedy output is transformers' own, whatever drafted it.

One server for each kind of draft. What the plain server gives is compared with transformers in `test_greedy`, so these
are compared with transformers too.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import start, stop
from prompts import ALL, LONG
from test_greedy import expected

NEW_TOKENS = 128
LEAST = {"tiny-27b-nextn": 2.0, "tiny-27b-dflash2": 2.8}
"""Tokens of each verify over the twenty prompts, at temperature 0."""
PENALTIES = [
    {"presence_penalty": 0.6},
    {"presence_penalty": -1.5},
    {"frequency_penalty": 0.4},
    {"frequency_penalty": -0.5},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.9},
    {"presence_penalty": 1.5, "frequency_penalty": 0.7},
    {"frequency_penalty": 0.3, "repetition_penalty": 1.1},
    {"presence_penalty": 0.2, "frequency_penalty": 0.2, "repetition_penalty": 1.2},
    {"repetition_penalty": 1.5, "logit_bias": {"5": 3.0, "17": -100.0}},
]
"""Ten settings of what a request may ask for."""


@pytest.fixture(scope="session")
def answers(reference, tokenizer) -> list[tuple[list[int], list[int]]]:
    """Each prompt's tokens and transformers' continuation."""
    prompts = [tokenizer(text)["input_ids"] for text in ALL]
    return [(ids, expected(reference, ids, NEW_TOKENS)) for ids in prompts]


def test_tokens_equal_transformers_one_by_one_and_from_the_cache(drafting, answers, request) -> None:
    verifies = 0
    for ids, wanted in answers:
        first = drafting.generate(ids, NEW_TOKENS)
        assert first["output_ids"] == wanted
        if len(ids) > 64:  # a page of the prefix cache
            again = drafting.generate(ids, NEW_TOKENS)
            assert again["output_ids"] == wanted
            assert again["meta_info"]["cached_tokens"] >= 64 * ((len(ids) - 1) // 64)
        verifies += first["meta_info"]["spec_verify_ct"]
    assert (NEW_TOKENS - 1) * len(answers) / verifies >= LEAST[request.node.callspec.params["drafting"]]


def test_four_streams_at_once_give_the_same(drafting, answers) -> None:
    drafting.post("/flush_cache", {})
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda row: drafting.generate(row[0], NEW_TOKENS)["output_ids"], answers))
    assert found == [wanted for _, wanted in answers]


@pytest.fixture(scope="session")
def penalised(server, tokenizer) -> list[tuple[dict, list[int], list[int]]]:
    """Settings, the first prompt whose answer they change, and what the server without drafts gives."""
    prompts = [tokenizer(text)["input_ids"] for text in (ALL[0], ALL[8], LONG[2], ALL[5], LONG[0])]
    plain = [server.generate(ids, 64)["output_ids"] for ids in prompts]
    rows = []
    for asked in PENALTIES:
        answers = ((ids, server.generate(ids, 64, **asked)["output_ids"]) for ids in prompts)
        changed = (
            (answer, usual) for answer, usual in zip(answers, plain, strict=True) if answer[1] != usual
        )
        (ids, wanted), _ = next(changed)
        rows.append((asked, ids, wanted))
    return rows


def test_penalties_give_what_the_server_without_drafts_gives(drafting, penalised) -> None:
    """Without the seams of `spec-penalties` stock drops them (DFLASH) or counts one token of each block (NEXTN)."""
    for asked, ids, wanted in penalised:
        found = drafting.generate(ids, 64, **asked)
        assert found["output_ids"] == wanted, asked
        assert found["meta_info"]["spec_verify_ct"] < 63  # it did draft


def test_penalties_of_several_requests_in_one_batch(drafting, server, tokenizer) -> None:
    """Each has its own, and some have none."""
    asked = [{}, *PENALTIES[:3], {}, *PENALTIES[6:9]]
    ids = tokenizer(ALL[8])["input_ids"]
    wanted = [server.generate(ids, 48, **settings)["output_ids"] for settings in asked]
    with ThreadPoolExecutor(len(asked)) as pool:
        found = list(pool.map(lambda settings: drafting.generate(ids, 48, **settings)["output_ids"], asked))
    assert found == wanted


def test_an_end_marker_is_held_back_until_there_are_enough_tokens(drafting, server, tokenizer) -> None:
    chat = "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    ids = tokenizer(chat)["input_ids"]
    short = server.generate(ids, 64, ignore_eos=False)["output_ids"]
    assert len(short) < 40  # it ends by itself
    asked = {"ignore_eos": False, "min_new_tokens": len(short) + 5}
    wanted = server.generate(ids, 64, **asked)["output_ids"]
    assert len(wanted) > len(short)
    assert drafting.generate(ids, 64, **asked)["output_ids"] == wanted


@pytest.mark.parametrize("profile", list(LEAST))
def test_the_profile_as_a_user_starts_it(profile, tmp_path, tokenizer) -> None:
    """In bfloat16, where stock takes other kernels. An override of the target stays with the target: stock gives it to
    the draft too, whose flat config it breaks."""
    override = 'json_model_override_args={"text_config": {"max_position_embeddings": 8192}}'
    options = ("--set", override) if "dflash" in profile else ()
    running = start(tmp_path, "--device", "cpu", *options, profile=profile)
    answer = running.generate(tokenizer(ALL[0])["input_ids"], 32)
    assert len(answer["output_ids"]) == 32
    assert answer["meta_info"]["spec_verify_ct"] < 20
    drawn = running.generate(tokenizer(ALL[0])["input_ids"], 32, temperature=1.0)
    assert len(drawn["output_ids"]) == 32
    assert stop(running) == 0
