"""A server whose every byte and pause is programmed, to test clients against known timelines."""

from penny_bench.mock.script import Cut, Refusal, Script, Step, chunk, token_script
from penny_bench.mock.server import MockServer, running

__all__ = ["Cut", "MockServer", "Refusal", "Script", "Step", "chunk", "running", "token_script"]
