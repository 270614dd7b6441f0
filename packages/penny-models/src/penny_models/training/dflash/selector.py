"""The candidate selector: one path through the top-K candidates of each slot (DFlash2)."""

import torch
from torch import Tensor, nn


class CandidateSelector(nn.Module):
    """Scores the step from one token to the next with two tables [vocab, rank] and the slot's hidden state."""

    def __init__(self, hidden_size: int, vocab_size: int, rank: int) -> None:
        super().__init__()
        self.predecessor_codebook = nn.Parameter(torch.zeros(vocab_size, rank))
        self.successor_codebook = nn.Parameter(torch.zeros(vocab_size, rank))
        self.hidden_projection = nn.Linear(hidden_size, rank, bias=False)

    def scores(self, candidates: Tensor, unary: Tensor, hidden: Tensor, predecessors: Tensor) -> Tensor:
        """Return ``unary[c] + <A[predecessor] * project(hidden), B[c]>`` for every candidate c, in float32.

        Args:
            candidates: [..., K] token ids.
            unary: [..., K], their logits.
            hidden: [..., H].
            predecessors: [...], the token before each slot.
        """
        before = self.predecessor_codebook.index_select(0, predecessors.flatten()).view(
            *predecessors.shape, -1
        )
        after = self.successor_codebook.index_select(0, candidates.flatten()).view(*candidates.shape, -1)
        query = before.float() * self.hidden_projection(hidden).float()
        scores: Tensor = unary.float() + (query.unsqueeze(-2) * after.float()).sum(-1)
        return scores

    def walk(
        self, candidates: Tensor, unary: Tensor, hidden: Tensor, anchors: Tensor, uniforms: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Choose one candidate for each slot, slot after slot.

        Args:
            candidates: [B, S, K] token ids, ``unary`` their logits.
            hidden: [B, S, H].
            anchors: [B], the verified tokens before slot 0.
            uniforms: [B, S] draws for sampling at temperature 1 by the inverse distribution function; None for
                the best score.

        Returns:
            The tokens [B, S] and the probability [B, S] with which each was drawn (1 without ``uniforms``).
        """
        tokens: list[Tensor] = []
        drawn: list[Tensor] = []
        previous = anchors
        for slot in range(candidates.shape[1]):
            scores = self.scores(candidates[:, slot], unary[:, slot], hidden[:, slot], previous)
            if uniforms is None:
                index = scores.argmax(-1, keepdim=True)
                drawn.append(torch.ones_like(scores[:, 0]))
            else:
                chances = scores.softmax(-1)
                passed = uniforms[:, slot, None] >= chances.cumsum(-1)
                index = passed.sum(-1, keepdim=True).clamp_max(scores.shape[-1] - 1)
                drawn.append(chances.gather(-1, index).squeeze(-1))
            previous = candidates[:, slot].gather(-1, index).squeeze(-1)
            tokens.append(previous)
        return torch.stack(tokens, 1), torch.stack(drawn, 1)
