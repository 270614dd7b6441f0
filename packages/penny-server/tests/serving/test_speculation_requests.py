"""What a request may ask for, with drafts: the same answer as without, in float32 on the CPU, and nothing left behind.

What the server without drafts gives is tested elsewhere in this folder.
"""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import jsonschema
import pytest
from conftest import Server
from prompts import ALL
from schemas import random_schemas
from test_api import metric, stream

CHAT = "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
USED = ("sglang:num_running_reqs", "sglang:kv_used_tokens", "sglang:mamba_used_tokens")


def both(drafting: Server, server: Server, path: str, body: dict) -> dict:
    """The answer of the server with drafts; the one without is asked too, and must give the same text and reason."""
    answers = []
    for each in (drafting, server):
        response = each.post(path, body)
        assert response.status_code == 200, response.text
        answers.append(response.json())
    found, wanted = ([*answer.get("choices", [answer])] for answer in answers)
    for choice in (*found, *wanted):
        choice.pop("meta_info", None)
    assert found == wanted
    return answers[0]


def generated(
    drafting: Server, server: Server, ids: list[int], new_tokens: int, **params: object
) -> list[int]:
    """Tokens of the server with drafts; those of the one without are the same, and so is why they end."""
    found, wanted = (each.generate(ids, new_tokens, **params) for each in (drafting, server))
    assert found["output_ids"] == wanted["output_ids"], params
    assert found["text"] == wanted["text"]
    assert found["meta_info"]["finish_reason"] == wanted["meta_info"]["finish_reason"]
    assert found["meta_info"]["completion_tokens"] == len(found["output_ids"])
    return found["output_ids"]


@pytest.mark.parametrize("index", range(4))
def test_json_schema(drafting, server, index: int) -> None:
    schema = random_schemas()[index]
    body = {
        "messages": [{"role": "user", "content": "Answer with a JSON object."}],
        "max_tokens": 400,
        "temperature": 0,
        "chat_template_kwargs": {"enable_thinking": False},
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
    }
    answer = both(drafting, server, "/v1/chat/completions", body | {"model": "tiny-27b"})
    jsonschema.validate(json.loads(answer["choices"][0]["message"]["content"]), schema)
    drawn = drafting.post("/v1/chat/completions", body | {"model": "tiny-27b", "temperature": 1.0}).json()
    jsonschema.validate(json.loads(drawn["choices"][0]["message"]["content"]), schema)


def test_regular_expression(drafting, server, tokenizer) -> None:
    pattern = r"(red|green), [0-9]{3}-[a-f]{5}; (yes|no)!"
    ids = tokenizer("Colour, number, answer: ")["input_ids"]
    generated(drafting, server, ids, 64, regex=pattern, ignore_eos=False)
    for temperature in (0, 1.0):
        text = drafting.generate(ids, 64, regex=pattern, ignore_eos=False, temperature=temperature)["text"]
        assert re.fullmatch(pattern, text)


@pytest.mark.parametrize("new_tokens", [*range(1, 10), 13])
def test_any_number_of_tokens(drafting, server, tokenizer, new_tokens: int) -> None:
    ids = tokenizer(ALL[8])["input_ids"]
    assert len(generated(drafting, server, ids, new_tokens)) == new_tokens


def test_stop_tokens_anywhere_in_a_block(drafting, server, tokenizer) -> None:
    ids = tokenizer(ALL[0])["input_ids"]
    free = server.generate(ids, 40)["output_ids"]
    for token in dict.fromkeys(free):
        found = generated(drafting, server, ids, 40, stop_token_ids=[token], ignore_eos=False)
        assert found == free[: free.index(token) + 1]


def test_stop_strings_anywhere_in_a_block(drafting, server, tokenizer) -> None:
    prompt = ALL[0]
    free = server.generate(tokenizer(prompt)["input_ids"], 40)["text"]
    for at in range(3, 60, 7):
        stop = free[at : at + 4]
        body = {"model": "tiny-27b", "prompt": prompt, "max_tokens": 40, "temperature": 0, "stop": [stop]}
        choice = both(drafting, server, "/v1/completions", body)["choices"][0]
        assert choice["text"] == free[: free.index(stop)]
        assert choice["finish_reason"] == "stop"


def test_an_end_marker_ends_or_is_ignored(drafting, server, tokenizer) -> None:
    ids = tokenizer(CHAT)["input_ids"]
    short = generated(drafting, server, ids, 64, ignore_eos=False)
    assert len(short) < 40  # it ends by itself
    on = generated(drafting, server, ids, 64, ignore_eos=True)
    assert on[: len(short)] == short
    assert len(on) == 64


def test_logprobs_are_those_of_the_target(drafting, server, tokenizer) -> None:
    body = {
        "input_ids": tokenizer(ALL[8])["input_ids"],
        "sampling_params": {"temperature": 0, "max_new_tokens": 21, "ignore_eos": True},
        "return_logprob": True,
        "top_logprobs_num": 3,
        "logprob_start_len": 0,
    }
    found, wanted = (each.post("/generate", body).json()["meta_info"] for each in (drafting, server))
    for name in ("input_token_logprobs", "output_token_logprobs"):
        assert [row[1] for row in found[name]] == [row[1] for row in wanted[name]]
        assert [row[0] for row in found[name]] == [pytest.approx(row[0], abs=2e-4) for row in wanted[name]]
    assert len(found["output_token_logprobs"]) == 21
    tops = zip(found["output_top_logprobs"], wanted["output_top_logprobs"], strict=True)
    for top, right in tops:
        assert [row[1] for row in top] == [row[1] for row in right]
        assert [row[0] for row in top] == [pytest.approx(row[0], abs=2e-4) for row in right]


def test_min_p_is_refused_where_it_would_be_left_out(drafting, tokenizer) -> None:
    ids = tokenizer(ALL[8])["input_ids"]
    sampling = {"temperature": 1.0, "min_p": 0.1, "max_new_tokens": 8}
    response = drafting.post("/generate", {"input_ids": ids, "sampling_params": sampling})
    assert response.status_code == 400
    assert "min_p: with drafts" in response.text
    assert len(drafting.generate(ids, 8, min_p=0.1)["output_ids"]) == 8  # at temperature 0 it changes nothing


def test_streamed_parts_are_the_whole(drafting, server) -> None:
    body = {"model": "tiny-27b", "prompt": ALL[8], "max_tokens": 45, "temperature": 0, "ignore_eos": True}
    whole = both(drafting, server, "/v1/completions", body)["choices"][0]["text"]
    events = stream(drafting, "/v1/completions", body)
    texts = [event["choices"][0]["text"] for event in events if event["choices"]]
    assert "".join(texts) == whole
    assert 5 < len(texts) < 45  # in parts, of more than one token


def used(server: Server) -> tuple[float, ...]:
    return tuple(metric(server, name) for name in USED)


def leave_early(server: Server, prompt: str) -> None:
    """A client that goes away after its third event."""
    body = {"model": "tiny-27b", "prompt": prompt, "max_tokens": 2500, "temperature": 0, "ignore_eos": True}
    request = {"json": {**body, "stream": True}, "timeout": 60}
    with httpx.stream("POST", f"{server.url}/v1/completions", **request) as response:
        seen = 0
        for line in response.iter_lines():
            seen += line.startswith("data: ")
            if seen == 3:
                return
    raise AssertionError("the answer ended first")


def test_clients_that_leave_in_mid_verification_leave_nothing_behind(drafting, server, tokenizer) -> None:
    """One, then six at once beside an answer that goes on: the pools are free again, and answers are right."""
    ids = tokenizer(ALL[2])["input_ids"]
    wanted = server.generate(ids, 96)["output_ids"]
    drafting.post("/flush_cache", {}).raise_for_status()
    before = used(drafting)
    assert before[0] == 0
    leave_early(drafting, ALL[8])
    with ThreadPoolExecutor(7) as pool:
        stays = pool.submit(drafting.generate, ids, 96)
        list(pool.map(lambda text: leave_early(drafting, text), ALL[3:9]))
        assert stays.result()["output_ids"] == wanted
    deadline = time.monotonic() + 60
    while drafting.post("/flush_cache", {}).status_code != 200 and time.monotonic() < deadline:
        time.sleep(0.5)  # refused while a request runs
    assert drafting.generate(ids, 96)["output_ids"] == wanted
    drafting.post("/flush_cache", {}).raise_for_status()
    while used(drafting) != before and time.monotonic() < deadline:
        time.sleep(0.2)  # the figures follow a little later
    assert used(drafting) == before
