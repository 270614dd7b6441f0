"""Joins the deltas of a stream to what was said."""

from typing import Any

from penny_bench.client.record import Reply, ToolCall


class Transcript:
    """Feed it every delta in order, then ask for the reply."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}

    def add(self, delta: dict[str, Any]) -> None:
        """Take in one delta of a chat completion chunk. Parts that are no text are left out."""
        for key, parts in (
            ("content", self._content),
            ("reasoning_content", self._reasoning),
            ("reasoning", self._reasoning),
        ):
            if isinstance(delta.get(key), str):
                parts.append(delta[key])
        for place, part in enumerate(delta.get("tool_calls") or ()):
            if isinstance(part, dict):
                self._call(part, place)

    def reply(self) -> Reply:
        """All that was said so far."""
        calls = tuple(
            ToolCall(call["name"], call["arguments"], call["id"]) for _, call in sorted(self._calls.items())
        )
        return Reply("".join(self._content), "".join(self._reasoning), calls)

    def _call(self, part: dict[str, Any], place: int) -> None:
        index = part.get("index")
        call = self._calls.setdefault(
            index if isinstance(index, int) else place, {"name": "", "arguments": "", "id": ""}
        )
        if isinstance(part.get("id"), str) and part["id"]:
            call["id"] = part["id"]
        function = part.get("function")
        for key in ("name", "arguments"):
            if isinstance(function, dict) and isinstance(function.get(key), str):
                call[key] += function[key]
