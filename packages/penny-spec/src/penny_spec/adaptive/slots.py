"""Candidate widths by batch size."""

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True)
class Slots:
    """Candidate widths from a batch size on: `((1, (3, 7)), (2, (3,)))` drafts 3 or 7 tokens alone, else 3.

    The default is the reference's `adaptive-next.json`: two or more requests stay at 3.

    Attributes:
        floors: pairs of the smallest batch size and its candidate widths, both rising. A batch smaller than the
            first floor uses the first pair.
    """

    floors: tuple[tuple[int, tuple[int, ...]], ...] = ((1, (3, 7)), (2, (3,)))

    def __post_init__(self) -> None:
        sizes = [size for size, _ in self.floors]
        if not sizes or sizes != sorted(set(sizes)) or sizes[0] < 1:
            raise ValueError(
                f"The batch sizes {sizes} are no floors; give at least one, rising, the first at least 1."
            )
        for size, widths in self.floors:
            if not widths or list(widths) != sorted(set(widths)) or widths[0] < 1:
                raise ValueError(
                    f"Batch size {size} has the candidate widths {list(widths)}; give at least one, rising, each at "
                    "least 1 (a policy learns nothing from a forward without drafts)."
                )

    def index(self, batch_size: int) -> int:
        """Return which pair of `floors` a batch uses."""
        return max(0, bisect_right([size for size, _ in self.floors], batch_size) - 1)

    def widths(self) -> tuple[int, ...]:
        """Return every candidate of every batch size, rising."""
        return tuple(sorted({width for _, widths in self.floors for width in widths}))

    def starts(self, launch: int) -> list[int]:
        """Return the first width of each pair: `launch` where it is a candidate, else the middle candidate."""
        return [launch if launch in widths else widths[len(widths) // 2] for _, widths in self.floors]
