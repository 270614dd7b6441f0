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
    "max_tokens is negative": ({"max_tokens": -3}, "max_new_tokens"),
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
        "schema",
    ),
    "response format is unknown": ({"response_format": {"type": "yaml"}}, "response_format"),
    "logprobs out of range": ({"logprobs": True, "top_logprobs": -4}, "top_logprobs"),
    "n is zero": ({"n": 0}, "n"),
}


@pytest.mark.parametrize("name", BAD)
def test_malformed_request_is_refused_and_names_the_field(server, name: str) -> None:
    change, field = BAD[name]
    response = server.post("/v1/chat/completions", {**CHAT, **change})
    assert response.status_code == 400, response.text
    message = response.json()["message"]
    assert re.search(rf"\b{re.escape(field)}", message), message
    assert ".py" not in message
    assert ".cc" not in message
    assert server.post("/v1/chat/completions", CHAT).status_code == 200


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
