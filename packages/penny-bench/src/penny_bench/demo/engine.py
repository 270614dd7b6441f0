"""A make-believe engine: how long a server could take, so that a report has something to show."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

from penny_bench.mock import Refusal, Script, Step, chunk

CHARACTERS = 4.0
"""Of a prompt, for each token."""
PREFILL = 9000.0
"""Rate of a short prefill, tokens/s; long ones are slower."""
STEP = 0.028
"""Time of a verify step on a short context, s."""
DRAFTS = 3
"""Draft tokens proposed in each step."""
ACCEPTED = (2, 3, 3, 4)
"""Weights of 0, 1, 2 and 3 accepted drafts."""
FAULT = 3000
"""The first prompt of so many tokens is refused."""


class Engine:
    """Answers requests for a mock server: one prefill at a time, decode with speculation, some reasoning.

    A prefill of n tokens takes n / 9,000 x (1 + n / 20,000) s and waits for those before it. A step brings one
    to four tokens. One request in three thinks first, and the first long prompt is refused with 503.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._free = 0.0  # when the prefill before ends
        self._refused = False

    def __call__(self, number: int, body: dict[str, Any]) -> Script:
        """The script for a chat request; the running number does not matter."""
        prompt = prompt_tokens(body)
        tokens = int(body.get("max_tokens") or body.get("max_completion_tokens") or 64)
        if prompt >= FAULT and not self._refused:
            self._refused = True
            return Refusal(503, "This one failure belongs to the demo.")
        now = time.monotonic()
        prefill = prefill_seconds(prompt)
        first = max(0.0, self._free - now) + prefill
        self._free = now + first
        return self._stream(prompt, tokens, first, prefill)

    def _stream(self, prompt: int, tokens: int, first: float, prefill: float) -> Script:
        step = STEP * (1 + prompt / 12_000)
        thinking = tokens // 3 if self._random.random() < 1 / 3 else 0
        steps: list[Step] = [Step(0.0, chunk({"role": "assistant", "content": ""}))]
        accepted: Counter[int] = Counter()
        done = 0
        decode = 0.0
        while done < tokens:
            drafts = self._random.choices(range(DRAFTS + 1), ACCEPTED)[0]
            brought = min(1 + drafts, tokens - done) if done else 1
            pause = step * self._random.uniform(0.85, 1.15) if done else first
            if done:
                accepted[brought - 1] += 1
                decode += pause
            kind = "reasoning_content" if done < thinking else "content"
            done += brought
            steps.append(Step(pause, chunk({kind: " tok" * brought}, completion_tokens=done), brought))
        steps.append(Step(0.0, chunk(finish="length", completion_tokens=tokens)))
        steps.append(Step(0.002, _closing(prompt, tokens, thinking, accepted, prefill, decode)))
        steps.append(Step(0.0, b"data: [DONE]\n\n"))
        return list(steps)


def prompt_tokens(body: dict[str, Any]) -> int:
    """Tokens of the messages, counted by their characters."""
    texts = [str(message.get("content") or "") for message in body.get("messages") or ()]
    return max(1, round(sum(map(len, texts)) / CHARACTERS))


def prefill_seconds(tokens: int) -> float:
    """How long the prefill of a prompt takes, s."""
    return tokens / PREFILL * (1 + tokens / 20_000)


def _closing(
    prompt: int, tokens: int, thinking: int, accepted: Counter[int], prefill: float, decode: float
) -> dict[str, Any]:
    """The last event: usage, acceptance as SGLang tells it, and times as llama.cpp tells them."""
    verify = sum(accepted.values())
    return {
        "object": "chat.completion.chunk",
        "choices": [],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": tokens,
            "total_tokens": prompt + tokens,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": thinking},
        },
        "sglext": {
            "cached_tokens_details": {"device": 0, "host": 0},
            "spec_tokens_details": {
                "spec_verify_ct": verify,
                "spec_num_correct_drafts": sum(drafts * n for drafts, n in accepted.items()),
                "spec_num_proposed_drafts": DRAFTS * verify,
                "spec_correct_drafts_histogram": [accepted[drafts] for drafts in range(DRAFTS + 1)],
            },
        },
        "timings": {"prompt_ms": 1000 * prefill, "predicted_ms": 1000 * decode},
    }
