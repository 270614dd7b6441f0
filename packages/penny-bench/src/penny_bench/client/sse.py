"""Server-sent events, from bytes cut anywhere (WHATWG HTML, section 9.2)."""


class EventDecoder:
    """Collects bytes and hands out the data of each finished event."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[str]:
        """The `data` of the events that these bytes finish, in order.

        Lines may end in LF or CRLF. Comments, other fields and events without data are dropped.

        Raises:
            UnicodeDecodeError: a finished line is not UTF-8.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        events: list[str] = []
        for raw in lines:
            line = raw.removesuffix(b"\r").decode()
            if line:
                field, _, value = line.partition(":")
                if field == "data":
                    self._data.append(value.removeprefix(" "))
            elif self._data:
                events.append("\n".join(self._data))
                self._data.clear()
        return events
