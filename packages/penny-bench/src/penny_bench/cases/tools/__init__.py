"""The tool cases of this package and their judges."""

from penny_bench.cases.tools import basics, larger, trouble
from penny_bench.cases.tools.history import assistant_message, continued, tool_message, user_message
from penny_bench.cases.tools.judge import EXACT, LITERAL, OUTCOMES, SEMANTIC, arguments_of, outcomes
from penny_bench.cases.tools.model import Expect, Invocation, ToolCase, choice, number, text, tool
from penny_bench.cases.tools.protocol import PROTOCOL, SCHEMA, protocol_checks
from penny_bench.cases.tools.quoted import QUOTED

CALLS = (*basics.CASES, *trouble.CASES, *larger.CASES)
"""Sixteen cases with 30 invocations; 15a to 15c are one case of three conversations."""

__all__ = [
    "CALLS",
    "EXACT",
    "LITERAL",
    "OUTCOMES",
    "PROTOCOL",
    "QUOTED",
    "SCHEMA",
    "SEMANTIC",
    "Expect",
    "Invocation",
    "ToolCase",
    "arguments_of",
    "assistant_message",
    "choice",
    "continued",
    "number",
    "outcomes",
    "protocol_checks",
    "text",
    "tool",
    "tool_message",
    "user_message",
]
