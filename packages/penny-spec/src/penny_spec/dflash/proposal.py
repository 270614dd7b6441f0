"""What a drafter hands to verification."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Proposal:
    """Draft tokens with the distribution from which each was drawn.

    Attributes:
        tokens: int64 `(B, S)`.
        candidates: int64 `(B, S, K)`, the token ids that each slot could have.
        probabilities: float64 `(B, S, K)`, how likely each candidate was, given the tokens proposed before it.
    """

    tokens: Tensor
    candidates: Tensor
    probabilities: Tensor

    def dense(self, vocabulary: int) -> Tensor:
        """float64 `(B, S, vocabulary)`: the same distribution over all tokens, as `verify.rejection` takes it.

        Raises:
            ValueError: a candidate outside the vocabulary.
        """
        highest = int(self.candidates.max())
        if highest >= vocabulary:
            raise ValueError(
                f"Candidate {highest} lies outside a vocabulary of {vocabulary}; pass the target's."
            )
        shape = (*self.candidates.shape[:2], vocabulary)
        return self.probabilities.new_zeros(shape).scatter_add_(2, self.candidates, self.probabilities)
