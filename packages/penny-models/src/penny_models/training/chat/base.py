"""A conversation and how it becomes text."""

from dataclasses import dataclass
from typing import Any

from transformers.utils.chat_template_utils import render_jinja_template

from penny_models.training.tokenizer import chat_template

Message = dict[str, Any]


@dataclass(frozen=True)
class Dialogue:
    """A finished conversation: ``key`` decides the held-out split, ``tools`` are JSON schemas or empty."""

    key: str
    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...] = ()


def user(text: str) -> Message:
    """Return a user message."""
    return {"role": "user", "content": text}


def assistant(text: str, thought: str = "") -> Message:
    """Return an assistant message; ``thought`` goes between the think markers."""
    return {"role": "assistant", "content": text, "reasoning_content": thought}


def render(dialogue: Dialogue) -> str:
    """Return the conversation as the chat template writes it."""
    # Annotated as a string, it returns the rendered texts and the spans of their answers.
    rendered: Any = render_jinja_template(
        conversations=[list(dialogue.messages)],
        tools=list(dialogue.tools) or None,
        chat_template=chat_template(),
    )
    texts, _ = rendered
    return str(texts[0])
