"""Conversations of an agent with tools that are sent again turn by turn: scripted ones, and recorded ones."""

from penny_bench.cases.replay.recorded import read_sessions
from penny_bench.cases.replay.script import cut, scripted_session, turn_sizes
from penny_bench.cases.replay.session import Message, Session, Turn

__all__ = ["Message", "Session", "Turn", "cut", "read_sessions", "scripted_session", "turn_sizes"]
