"""What replies must keep to, whatever they are about."""

from __future__ import annotations

import re
from collections.abc import Collection

from jsonschema import Draft202012Validator

from penny_bench.cases.tools.compare import parameters
from penny_bench.cases.tools.judge import arguments_of, short
from penny_bench.cases.tools.model import Schema
from penny_bench.client import Reply, StreamRecord
from penny_bench.load import Check

MARKUP = re.compile(
    r"</?tool_call>|<function=|</function>|<parameter=|</parameter>|</?think>|<\|im_(?:start|end)\|>"
)
"""Markup of the models' own format, which a parser must have taken out of what is said."""

JSON, SCHEMA, IDS, FINISH, CLEAN = (
    "arguments are JSON objects",
    "calls fit the schemas of the tools",
    "ids of calls are unique",
    "finish_reason fits",
    "no markup in the content",
)
PROTOCOL = (JSON, IDS, FINISH, CLEAN)
"""Names of the checks that hold of any server that keeps to the protocol, however weak its model is."""


def protocol_checks(
    case: str, record: StreamRecord, tools: tuple[Schema, ...], earlier: Collection[str], quotes: bool = False
) -> list[Check]:
    """Check a reply against the protocol.

    Args:
        case: that it belongs to.
        record: with its reply.
        tools: that were offered.
        earlier: ids of calls of the same conversation.
        quotes: whether the words of the reply may hold markup, as a quotation.

    Returns:
        What is of `PROTOCOL`, and whether calls fit the schemas, which is up to the model. Checks of calls are
        made only of replies that call.
    """
    reply = record.reply or Reply()
    found = []
    if reply.tool_calls:
        found += [(JSON, _json(reply)), (SCHEMA, _schema(reply, tools)), (IDS, _ids(reply, earlier))]
    found.append((FINISH, _finish(record, reply)))
    if not quotes:
        leak = MARKUP.search(reply.content)
        found.append((CLEAN, f"The content holds {leak[0]!r}: {short(reply.content)!r}." if leak else ""))
    return [Check(case, name, not wrong, wrong) for name, wrong in found]


def _json(reply: Reply) -> str:
    wrong = [call for call in reply.tool_calls if not call.arguments or arguments_of(call.arguments) is None]
    return f"{wrong[0].name} has the arguments {short(wrong[0].arguments)!r}." if wrong else ""


def _schema(reply: Reply, tools: tuple[Schema, ...]) -> str:
    for call in reply.tool_calls:
        schema = parameters(tools, call.name)
        if schema is None:
            return f"There is no tool {short(call.name)!r}."
        arguments = arguments_of(call.arguments)
        for error in Draft202012Validator(schema).iter_errors(
            arguments if arguments is not None else call.arguments
        ):
            return f"{call.name}: {short(error.message)} at {error.json_path}."
    return ""


def _ids(reply: Reply, earlier: Collection[str]) -> str:
    ids = [call.id for call in reply.tool_calls]
    if not all(ids):
        return "A call has no id."
    again = [i for i in ids if ids.count(i) > 1 or i in earlier]
    return f"The id {again[0]!r} comes twice in the conversation." if again else ""


def _finish(record: StreamRecord, reply: Reply) -> str:
    if record.finish_reason == "length":
        return ""
    wanted = "tool_calls" if reply.tool_calls else "stop"
    return (
        "" if record.finish_reason == wanted else f"It is {record.finish_reason!r}, and {wanted!r} was due."
    )
