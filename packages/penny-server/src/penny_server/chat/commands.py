"""What a line that begins with a slash does."""

from __future__ import annotations

from penny_server.chat.session import Session
from penny_server.nearest import did_you_mean

HELP = """\
/reset           forget the conversation so far (the system prompt stays)
/system [TEXT]   set the system prompt; without TEXT show it
/think on|off    let the model think first, or not
/help            this list
/exit            leave (or Ctrl-D)
Ctrl-C           stop the answer that is coming; at the prompt, leave"""

NAMES = ("/reset", "/system", "/think", "/help", "/exit")


class Leave(Exception):  # noqa: N818 - not an error
    """The person wants to leave."""


def run(line: str, session: Session) -> str:
    """Carries out the command in ``line`` and returns what to print; raises Leave for ``/exit``."""
    name, _, rest = line.partition(" ")
    rest = rest.strip()
    if name == "/exit":
        raise Leave
    if name == "/help":
        return HELP
    if name == "/reset":
        session.reset()
        return "The conversation is forgotten."
    if name == "/system":
        if rest:
            session.system = rest
            return "The system prompt is set."
        return session.system or "There is no system prompt."
    if name == "/think" and rest in ("on", "off"):
        session.set_think(rest == "on")
        return f"Thinking is {rest}."
    if name == "/think":
        return "Say /think on or /think off."
    return f"There is no command {name}. {did_you_mean(name, NAMES)}"
