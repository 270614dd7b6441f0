"""How the rows of a map divide into the tiles of a matrix product."""

from dataclasses import dataclass

TILE = 128
"""Rows of one output tile of a GEMM. Row counts that are no multiple of it leave the last tile partly idle;
aiueo52 measured about 10 % of the step for a row count that the GEMM does not like."""


@dataclass(frozen=True)
class Tiling:
    """Rows of a draft head against tiles of `TILE` rows.

    Attributes:
        rows: rows of the map.
        left: rows in the last, partial tile; 0 when the map tiles well.
        below: the nearest multiple of `TILE` that is not above `rows` (0 for a map of less than one tile).
        above: the nearest multiple of `TILE` that is not below `rows`.
    """

    rows: int
    left: int
    below: int
    above: int

    @property
    def warning(self) -> str | None:
        """A sentence for a map that tiles badly, else None."""
        if not self.left:
            return None
        nearest = f"{self.below:,} or {self.above:,}" if self.below else f"{self.above:,}"
        return (
            f"{self.rows:,} rows are no multiple of the {TILE}-row tile: {self.left} rows fill the last tile "
            f"in part. {nearest} rows use whole tiles."
        )


def tiling(rows: int) -> Tiling:
    """How `rows` divide into tiles of `TILE` rows."""
    below = rows - rows % TILE
    return Tiling(rows=rows, left=rows - below, below=below, above=below if below == rows else below + TILE)
