"""The client: sends streaming requests and records when which tokens came.

Tokens are counted by the server (`usage`), never by SSE events or by tokenising text again.
"""

from penny_bench.client.exchange import Exchange
from penny_bench.client.http import http_client
from penny_bench.client.record import (
    Arrival,
    CachedTokens,
    Failure,
    FailureKind,
    Reply,
    Spans,
    Speculation,
    StreamRecord,
    ToolCall,
)
from penny_bench.client.server import Server
from penny_bench.client.sse import EventDecoder
from penny_bench.client.stream import stream
from penny_bench.client.timeline import Timeline

__all__ = [
    "Arrival",
    "CachedTokens",
    "EventDecoder",
    "Exchange",
    "Failure",
    "FailureKind",
    "Reply",
    "Server",
    "Spans",
    "Speculation",
    "StreamRecord",
    "Timeline",
    "ToolCall",
    "http_client",
    "stream",
]
