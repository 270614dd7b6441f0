"""Malformed requests get a 4xx that names the field, and the server goes on."""

from __future__ import annotations

import re

import httpx
import pytest

CHAT = {"model": "tiny-27b", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}

BAD = {
    "no messages": ({"messages": None}, "messages"),
    "temperature is a word": ({"temperature": "warm"}, "temperature"),
    "negative temperature": ({"temperature": -1}, "temperature"),
    "max_tokens is negative": ({"max_tokens": -3}, "max_tokens"),
    "stop is a number": ({"stop": 5}, "stop"),
    "n with a seed": ({"n": 2, "seed": 3}, "n: with a seed"),
    "top_p above one": ({"top_p": 1.5}, "top_p"),
    "unknown role": ({"messages": [{"role": "wizard", "content": "x"}]}, "role"),
    "unknown tool choice": ({"tools": [TOOL], "tool_choice": "sometimes"}, "tool_choice"),
    "tool choice names no tool": (
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "fly"}}},
        "fly",
    ),
    "schema type is unknown": (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "a", "schema": {"type": "objekt"}},
            }
        },
        'Unsupported type "objekt"',
    ),
    "response format is unknown": ({"response_format": {"type": "yaml"}}, "response_format"),
    "logprobs out of range": ({"logprobs": True, "top_logprobs": -4}, "top_logprobs"),
    "n is zero": ({"n": 0}, "n: must be at least 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_malformed_request_is_refused_and_names_the_field(server, name: str) -> None:
    change, field = BAD[name]
    response = server.post("/v1/chat/completions", {**CHAT, **change})
    assert response.status_code == 400, response.text
    message = response.json()["message"]
    assert field in message
    assert ".py" not in message
    assert ".cc" not in message
    assert server.post("/v1/chat/completions", CHAT).status_code == 200


COMPLETION = {"model": "tiny-27b", "prompt": "def f(", "max_tokens": 4}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"n": 0}, "n: must be at least 1"),
        ({"logprobs": -1}, "logprobs: must be between 0 and 20"),
        ({"temperature": "warm"}, "temperature: "),
        ({"prompt": None}, "prompt: "),
    ],
)
def test_malformed_completion_is_refused(server, change: dict, field: str) -> None:
    response = server.post("/v1/completions", {**COMPLETION, **change})
    assert response.status_code == 400, response.text
    assert response.json()["message"].startswith(field)


@pytest.mark.parametrize("name", ["temperature is a word", "schema type is unknown", "top_p above one"])
def test_malformed_streaming_request_is_refused(server, name: str) -> None:
    change, field = BAD[name]
    response = server.post("/v1/chat/completions", {**CHAT, **change, "stream": True})
    assert field in response.text.replace('\\"', '"')
    assert response.status_code == 400 or '"error"' in response.text


def test_malformed_response_request_has_the_envelope_of_that_api(server) -> None:
    response = server.post("/v1/responses", {"model": "tiny-27b", "input": "x", "temperature": "warm"})
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("temperature: ")


def test_body_that_is_not_json(server) -> None:
    response = httpx.post(
        f"{server.url}/v1/chat/completions",
        content=b"{not json",
        headers={"content-type": "application/json"},
    )
    assert response.status_code == 400
    assert "json" in response.text.lower()


def test_over_long_prompt_is_refused_with_both_lengths(server) -> None:
    response = server.post(
        "/v1/completions", {"model": "tiny-27b", "prompt": "word " * 20000, "max_tokens": 1}
    )
    assert response.status_code == 400
    assert re.search(r"40000 tokens.*longer than.*context length \(4096 tokens\)", response.json()["message"])
