"""A server whose every byte and pause is programmed, to test clients against known timelines."""

from penny_bench.mock.loop import exact_loop
from penny_bench.mock.script import Cut, Refusal, Script, Step, chunk, token_script
from penny_bench.mock.served import Served, read_log, write_log
from penny_bench.mock.server import MockServer, running

__all__ = [
    "Cut",
    "MockServer",
    "Refusal",
    "Script",
    "Served",
    "Step",
    "chunk",
    "exact_loop",
    "read_log",
    "running",
    "token_script",
    "write_log",
]
