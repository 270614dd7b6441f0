"""Talking to an OpenAI-compatible server from the terminal."""
