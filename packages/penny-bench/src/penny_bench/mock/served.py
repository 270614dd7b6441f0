"""What the mock did for one request, by its own clock: the truth that a client is judged by."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from penny_bench.errors import BenchError


@dataclass
class Served:
    """One chat request. All times are of `time.perf_counter()` of this machine (CLOCK_MONOTONIC), s.

    Attributes:
        number: from 0, in the order in which they came.
        received: when the last bytes of the request came, by the kernel's stamp.
        status: HTTP status of the answer.
        sent: for each step, right before it was written.
        after: for each step, right after that: the bytes left this process between the two.
        tokens: for each step, the tokens that it brought.
        late: most that a step was written after it was due, s: an error of the mock and of no client.
        held: steps that the system did not take at once, since the client did not read.
        ended: when the answer was complete or cut; None before.
    """

    number: int
    received: float
    status: int = 200
    sent: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    late: float = 0.0
    held: int = 0
    ended: float | None = None

    def events(self) -> list[tuple[float, int]]:
        """Time and tokens of each step that brought any."""
        return [(t, tokens) for t, tokens in zip(self.sent, self.tokens, strict=True) if tokens]


def write_log(path: Path, served: Iterable[Served]) -> None:
    """Write JSON lines, one for each request."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(one)) + "\n" for one in served)


def read_log(path: Path) -> Iterator[Served]:
    """Read what `write_log` wrote.

    Raises:
        BenchError: the file is no log of a mock.
    """
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            yield Served(**json.loads(line))
    except (OSError, ValueError, TypeError) as error:
        raise BenchError(
            f"{path} is no log of a mock ({error}); pass the file of `penny-bench mock --log`."
        ) from error
