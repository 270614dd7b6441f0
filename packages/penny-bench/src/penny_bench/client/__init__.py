"""The client: sends streaming requests and records when which tokens came.

Tokens are counted by the server (`usage`), never by SSE events or by tokenising text again.
"""

from penny_bench.client.record import Arrival, Failure, FailureKind, StreamRecord
from penny_bench.client.server import Server
from penny_bench.client.sse import EventDecoder
from penny_bench.client.stream import http_client, stream
from penny_bench.client.timeline import Timeline

__all__ = [
    "Arrival",
    "EventDecoder",
    "Failure",
    "FailureKind",
    "Server",
    "StreamRecord",
    "Timeline",
    "http_client",
    "stream",
]
