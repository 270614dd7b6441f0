"""Server-sent events, as the WHATWG HTML standard defines the stream format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

DONE = "[DONE]"


def lines(chunks: Iterable[bytes]) -> Iterator[str]:
    r"""The lines of a byte stream, ended by ``\n``, ``\r\n`` or ``\r`` and by nothing else.

    (Text helpers also break lines at U+2028 and others, which may stand inside a JSON string.)
    """
    rest = b""
    for chunk in chunks:
        rest += chunk
        ready = rest.replace(b"\r\n", b"\n")
        # A carriage return at the end may be the first half of a pair.
        held = b"\r" if ready.endswith(b"\r") else b""
        *complete, rest = ready.removesuffix(held).replace(b"\r", b"\n").split(b"\n")
        rest += held
        for line in complete:
            yield line.decode("utf-8", "replace")
    for line in rest.replace(b"\r", b"\n").split(b"\n"):
        if line:
            yield line.decode("utf-8", "replace")


def data(chunks: Iterable[bytes]) -> Iterator[str]:
    """The data of each event; several ``data:`` lines of one event are joined by a newline.

    Comments and other fields are skipped. A last event without the closing empty line counts too, because
    some servers end the stream that way.
    """
    gathered: list[str] = []
    for line in lines(chunks):
        if not line:
            if gathered:
                yield "\n".join(gathered)
            gathered = []
        elif line.startswith("data:"):
            gathered.append(line[5:].removeprefix(" "))
    if gathered:
        yield "\n".join(gathered)
