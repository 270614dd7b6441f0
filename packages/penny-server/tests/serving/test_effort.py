"""The reasoning effort: the server's default, and the request's own, which wins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conftest import Server, start, stop

# The effort as that many words, so that the number of prompt tokens shows which one was rendered.
WORDS = {"low": 20, "medium": 60, "xhigh": 100, "": 0}
TEMPLATE = """\
{%- set words = {"low": 20, "medium": 60, "xhigh": 100} -%}
{{ "word " * words.get(reasoning_effort, 0) }}{{ messages[0].content }}"""
PROFILE = """\
name = "effort"
extends = "tiny-27b"
summary = "tiny-27b with a default effort"
features = ["progress", "pools", "requests", "seeds", "drain", "effort"]
[options]
reasoning_effort = "low"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("effort")
    (root / "template.jinja").write_text(TEMPLATE)
    (root / "effort.toml").write_text(PROFILE)
    template = f"chat_template={root / 'template.jinja'}"
    running = start(root, "--device", "cpu", "--set", template, profile=str(root / "effort.toml"))
    yield running
    stop(running)


def prompt_tokens(server: Server, **body: object) -> int:
    asked = {"model": "effort", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1, **body}
    response = server.post("/v1/chat/completions", asked)
    assert response.status_code == 200, response.text
    return int(response.json()["usage"]["prompt_tokens"])


def test_default_and_the_requests_own(server: Server) -> None:
    default = prompt_tokens(server)
    assert default > WORDS["low"]
    expected = {"low": 0, "medium": 1, "xhigh": 2}
    step = (prompt_tokens(server, reasoning_effort="xhigh") - default) // 2
    assert step >= 40, "a request's effort does not reach the template"
    for effort, steps in expected.items():
        assert prompt_tokens(server, reasoning_effort=effort) == default + steps * step
        inside = prompt_tokens(server, chat_template_kwargs={"reasoning_effort": effort})
        assert inside == default + steps * step
