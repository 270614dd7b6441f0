"""The OpenAI-compatible API: one text however it is asked for, limits respected, requests freed."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import jsonschema
import pytest
from schemas import random_schemas

PROMPT = "def area(width, height):\n    return"


def metric(server, name: str) -> float:
    text = httpx.get(f"{server.url}/metrics").text
    values = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + "{")]
    assert values, f"{name} is not among the metrics"
    return sum(values)


def stream(server, path: str, body: dict) -> list[dict]:
    events = []
    with httpx.stream("POST", f"{server.url}{path}", json={**body, "stream": True}, timeout=120) as response:
        assert response.status_code == 200
        for line in response.iter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                events.append(json.loads(line[6:]))
    return events


def complete(server, **extra: object) -> dict:
    body = {"model": "tiny-27b", "prompt": PROMPT, "max_tokens": 32, "temperature": 0, **extra}
    response = server.post("/v1/completions", body)
    assert response.status_code == 200, response.text
    return response.json()


def test_completion_streamed_and_whole_are_the_same_text(server, tokenizer) -> None:
    ids = tokenizer(PROMPT)["input_ids"]
    native = server.generate(ids, 32)["text"]
    whole = complete(server, ignore_eos=True)["choices"][0]["text"]
    body = {"model": "tiny-27b", "prompt": PROMPT, "max_tokens": 32, "temperature": 0, "ignore_eos": True}
    parts = "".join(e["choices"][0]["text"] for e in stream(server, "/v1/completions", body) if e["choices"])
    assert native == whole == parts


def test_chat_streamed_whole_and_templated_completion_are_the_same_text(server, tokenizer) -> None:
    messages = [{"role": "user", "content": "What does os.path.join do?"}]
    body = {
        "model": "tiny-27b", "messages": messages, "max_tokens": 48, "temperature": 0,
        "chat_template_kwargs": {"enable_thinking": False},
    }  # fmt: skip
    message = server.post("/v1/chat/completions", body).json()["choices"][0]["message"]
    deltas = [e["choices"][0]["delta"] for e in stream(server, "/v1/chat/completions", body) if e["choices"]]
    prompt = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=False, enable_thinking=False
    )
    plain = complete(server, prompt=prompt, max_tokens=48)["choices"][0]["text"]
    assert message["content"] == "".join(d.get("content") or "" for d in deltas)
    assert message["content"].strip() == plain.strip() != ""


def test_usage_counts_tokens(server, tokenizer) -> None:
    usage = complete(server, max_tokens=7, ignore_eos=True)["usage"]
    assert usage["completion_tokens"] == 7
    assert usage["prompt_tokens"] == len(tokenizer(PROMPT)["input_ids"])


def test_stop_string_ends_before_it(server) -> None:
    free = complete(server, max_tokens=48, ignore_eos=True)["choices"][0]["text"]
    stop = free[10:13]
    choice = complete(server, max_tokens=48, stop=[stop])["choices"][0]
    assert choice["text"] == free[: free.index(stop)]
    assert choice["finish_reason"] == "stop"


def test_seed_repeats_a_sample_and_another_seed_does_not(server) -> None:
    def sample(seed: int) -> str:
        return complete(server, temperature=1.5, seed=seed, max_tokens=40, ignore_eos=True)["choices"][0][
            "text"
        ]

    assert sample(1) == sample(1)
    assert len({sample(seed) for seed in range(1, 6)}) == 5


def test_seed_goes_with_top_k_top_p_and_min_p_and_with_company(server) -> None:
    body = {"temperature": 1.5, "seed": 7, "max_tokens": 24, "top_p": 0.95, "ignore_eos": True}
    body |= {"top_k": 50, "min_p": 0.01}
    alone = complete(server, **body)["choices"][0]["text"]
    with ThreadPoolExecutor(6) as pool:
        others = [{**body, "seed": seed} for seed in (1, 2, 7, 3, 7, 4)]
        texts = [a["choices"][0]["text"] for a in pool.map(lambda o: complete(server, **o), others)]
    assert [texts[2], texts[4]] == [alone, alone]
    assert len(set(texts)) == 5


@pytest.mark.parametrize("neighbour", [{"temperature": 0}, {"temperature": 1.0, "top_p": 0.5}])
def test_seed_repeats_beside_a_request_of_another_kind(server, neighbour: dict) -> None:
    body = {"temperature": 1.5, "seed": 11, "max_tokens": 40, "ignore_eos": True}
    alone = complete(server, **body)["choices"][0]["text"]
    with ThreadPoolExecutor(4) as pool:
        others = [
            pool.submit(complete, server, max_tokens=80, ignore_eos=True, **neighbour) for _ in range(3)
        ]
        beside = complete(server, **body)["choices"][0]["text"]
        assert all(other.result() for other in others)
    assert beside == alone


def test_requests_without_a_seed_differ(server) -> None:
    texts = {
        complete(server, temperature=1.5, max_tokens=40, ignore_eos=True)["choices"][0]["text"]
        for _ in range(3)
    }
    assert len(texts) == 3


@pytest.mark.parametrize("index", range(20))
def test_json_schema_output_is_valid(server, index: int) -> None:
    schema = random_schemas()[index]
    body = {
        "model": "tiny-27b",
        "messages": [{"role": "user", "content": "Answer with a JSON object."}],
        "max_tokens": 400,
        "temperature": 0.8,
        "seed": index,
        "chat_template_kwargs": {"enable_thinking": False},
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
    }
    response = server.post("/v1/chat/completions", body)
    assert response.status_code == 200, response.text
    choice = response.json()["choices"][0]
    assert choice["finish_reason"] == "stop"
    jsonschema.validate(json.loads(choice["message"]["content"]), schema)


def test_a_cancelled_stream_frees_its_request(server) -> None:
    body = {"model": "tiny-27b", "prompt": PROMPT, "max_tokens": 3000, "temperature": 0, "ignore_eos": True}
    with httpx.stream(
        "POST", f"{server.url}/v1/completions", json={**body, "stream": True}, timeout=60
    ) as response:
        seen = 0
        for line in response.iter_lines():
            seen += line.startswith("data: ")
            if seen == 5:
                break
    deadline = time.monotonic() + 20
    while metric(server, "sglang:num_running_reqs") and time.monotonic() < deadline:
        time.sleep(0.2)
    assert metric(server, "sglang:num_running_reqs") == 0
    assert complete(server, max_tokens=3)["usage"]["completion_tokens"] <= 3
