"""How far a draft chain gets, learnt from verifications: the statistics behind `Confidence`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Survival:
    """Running shares of chains that had at least 1, 2, ... tokens accepted.

    Attributes:
        shares: by position, the running share of verified chains that were accepted up to it.
        seen: by position, how many verifications reached that far in width. 0 means that the share is not known.
    """

    shares: tuple[float, ...]
    seen: tuple[int, ...]

    @classmethod
    def unknown(cls, widest: int) -> "Survival":
        """Return the statistics of `widest` positions before the first verification."""
        return cls((0.0,) * widest, (0,) * widest)

    def observe(self, accepted: int, width: int, alpha: float) -> "Survival":
        """Return them after one chain of `width` tokens.

        The share is a plain mean at first, then an exponential one: the newest chain weighs 1 / n until that is
        below `alpha`.
        """
        shares, seen = list(self.shares), list(self.seen)
        for position in range(min(width, len(shares))):
            seen[position] += 1
            weight = max(alpha, 1.0 / seen[position])
            shares[position] += weight * (float(accepted > position) - shares[position])
        return Survival(tuple(shares), tuple(seen))

    def forget_above(self, width: int) -> "Survival":
        """Return them without what was learnt of positions behind the first `width`."""
        rest = len(self.shares) - width
        if rest <= 0:
            return self
        return Survival(self.shares[:width] + (0.0,) * rest, self.seen[:width] + (0,) * rest)

    def expected(self, width: int, tail_bias: float) -> float:
        """Return the expected accepted tokens of a chain of `width` tokens.

        Exact up to the last position seen: the mean of min(accepted, width) is the sum of the shares. Beyond it
        each further token is accepted as often as the last one seen was after the one before (the hazard at the
        boundary), times `tail_bias`.
        """
        known = sum(1 for count in self.seen if count)
        if known == 0:
            raise ValueError("Nothing was observed of these chains; observe one verification first.")
        total = sum(self.shares[: min(width, known)])
        survivors = self.shares[known - 1]
        before = self.shares[known - 2] if known > 1 else 1.0
        ratio = min(1.0, tail_bias * survivors / before) if before else 0.0
        for _ in range(known, width):
            survivors *= ratio
            total += survivors
        return total
