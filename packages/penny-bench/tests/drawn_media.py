"""Scenarios of the media workload as the tests draw them, and what is attached to their questions."""

from __future__ import annotations

import base64
from functools import cache

from penny_bench.cases.media import Scenario
from penny_bench.cases.media.scenarios import draw_scenario


@cache
def drawn(name: str, seed: int = 1) -> Scenario:
    return draw_scenario(name, seed, "No. 1.\n\n", ["first text", "second text"])


def media_of(scenario: Scenario) -> list[bytes]:
    found = []
    for question in scenario.questions:
        for message in question.added:
            for part in message["content"] if isinstance(message["content"], list) else ():
                if part["type"] != "text":
                    kind, data = part[part["type"]]["url"].split(";base64,")
                    assert kind == ("data:image/png" if part["type"] == "image_url" else "data:video/mp4")
                    found.append(base64.b64decode(data))
    return found
