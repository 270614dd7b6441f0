"""The candidate selector: scores of the steps between candidates, and one path through them.

`B` requests, `S` slots (proposals of a block), `K` candidates a slot.
"""

import torch
from torch import Tensor, nn

from penny_spec.dflash.proposal import Proposal
from penny_spec.verify.chain import draw


class CandidateSelector(nn.Module):
    """Scores a step from token `p` to candidate `c` as `unary[c] + <A[p] * project(hidden), B[c]>`.

    Attributes:
        predecessor_codebook: `A`, `(vocabulary, rank)`.
        successor_codebook: `B`, `(vocabulary, rank)`; the factor `1 / sqrt(rank)` is folded into it.
        hidden_projection: hidden to rank, without bias.
    """

    def __init__(self, hidden_size: int, vocab_size: int, rank: int) -> None:
        super().__init__()
        self.predecessor_codebook = nn.Parameter(torch.zeros(vocab_size, rank))
        self.successor_codebook = nn.Parameter(torch.zeros(vocab_size, rank))
        self.hidden_projection = nn.Linear(hidden_size, rank, bias=False)

    def scores(self, candidates: Tensor, unary: Tensor, hidden: Tensor, anchors: Tensor) -> Tensor:
        """Scores `(B, S, K, K)`: entry `[b, s, p, c]` is the step from candidate `p` of slot `s - 1` to `c` of `s`.

        Before slot 0 stands the anchor, so all rows of slot 0 are equal.

        Args:
            candidates: int64 `(B, S, K)`, token ids.
            unary: float `(B, S, K)`, their logits.
            hidden: float `(B, S, hidden)`, the draft's hidden states of the slots.
            anchors: int64 `(B,)`, the verified tokens before slot 0.
        """
        first = anchors[:, None, None].expand(-1, 1, candidates.shape[2])
        before = self.predecessor_codebook[torch.cat([first, candidates[:, :-1]], dim=1)]
        query = before * self.hidden_projection(hidden).unsqueeze(2)
        scores: Tensor = unary.unsqueeze(2) + query @ self.successor_codebook[candidates].transpose(-1, -2)
        return scores


def step_probabilities(scores: Tensor, temperatures: Tensor) -> Tensor:
    """float64 `(B, S, K, K)`: the distribution over `c` of each step `[b, s, p]`, by softmax at a temperature.

    At temperature 0 all the probability lies on the best score; between equals the first candidate has it.

    Args:
        scores: float `(B, S, K, K)`.
        temperatures: float `(B,)`, not negative.
    """
    wide = scores.double()
    heat = temperatures.double().view(-1, 1, 1, 1)
    hot = heat > 0
    soft = ((wide - wide.amax(dim=-1, keepdim=True)) / torch.where(hot, heat, 1.0)).softmax(dim=-1)
    best = torch.zeros_like(wide).scatter_(-1, wide.argmax(dim=-1, keepdim=True), 1.0)
    return torch.where(hot, soft, best)


def step_choices(probabilities: Tensor, uniforms: Tensor) -> Tensor:
    """int64 `(B, S, K)`: where each step `[b, s, p]` leads, by inverse CDF with one number a slot.

    Args:
        probabilities: float64 `(B, S, K, K)`.
        uniforms: float `(B, S)` in [0, 1), shared by all `p` of a slot; only one of them is on the path.
    """
    coins = uniforms.unsqueeze(2).expand(probabilities.shape[:3])
    return draw(probabilities.flatten(0, 2), coins.flatten()).view(probabilities.shape[:3])


def follow(choices: Tensor) -> Tensor:
    """The path `(B, S)` through `choices` `(B, S, K)`, in about log2(S) rounds.

    Each slot's choices are a map from candidates of the slot before to its own. A prefix scan (Hillis and Steele)
    composes them: in each round a map takes in the one that stands `reach` slots before it, and `reach` doubles.
    Two buffers take turns. The first map is constant, so column 0 of the composed maps is the path.
    """
    maps, spare = choices.clone(), torch.empty_like(choices)
    reach = 1
    while reach < choices.shape[1]:
        spare[:, :reach] = maps[:, :reach]
        torch.gather(maps[:, reach:], 2, maps[:, :-reach], out=spare[:, reach:])
        maps, spare = spare, maps
        reach *= 2
    return maps[:, :, 0]


def follow_in_order(choices: Tensor) -> Tensor:
    """The same path as `follow`, slot after slot."""
    place = choices[:, 0, 0]
    path = [place]
    for slot in range(1, choices.shape[1]):
        place = choices[:, slot].gather(1, place.unsqueeze(1)).squeeze(1)
        path.append(place)
    return torch.stack(path, dim=1)


def walk(
    candidates: Tensor, scores: Tensor, *, temperatures: Tensor, uniforms: Tensor | None = None
) -> Proposal:
    """Choose one candidate for each slot.

    Args:
        candidates: int64 `(B, S, K)`, token ids, different within a slot.
        scores: float `(B, S, K, K)`, as `CandidateSelector.scores` gives them.
        temperatures: float `(B,)`; 0 takes the best step each time (not the best path), as SGLang does.
        uniforms: float `(B, S)` in [0, 1), as `torch.rand` draws them; needed unless every temperature is 0.

    Returns:
        The `Proposal`, with the distribution from which each token was drawn.

    Raises:
        ValueError: shapes do not fit, a temperature is negative or not finite, a number outside [0, 1), a score
            that is not finite, or sampling without `uniforms`.
    """
    _check(candidates, scores, temperatures, uniforms)
    probabilities = step_probabilities(scores, temperatures)
    coins = scores.new_zeros(scores.shape[:2]) if uniforms is None else uniforms
    path = follow(step_choices(probabilities, coins))
    came_from = torch.cat([torch.zeros_like(path[:, :1]), path[:, :-1]], dim=1)
    row = came_from[:, :, None, None].expand(-1, -1, 1, scores.shape[3])
    tokens = candidates.gather(2, path.unsqueeze(2)).squeeze(2)
    return Proposal(tokens, candidates, probabilities.gather(2, row).squeeze(2))


def _check(candidates: Tensor, scores: Tensor, temperatures: Tensor, uniforms: Tensor | None) -> None:
    if candidates.dim() != 3 or 0 in candidates.shape[1:]:
        raise ValueError(f"candidates has shape {tuple(candidates.shape)}; pass (batch, slots, candidates).")
    batch, slots, count = candidates.shape
    if scores.shape != (batch, slots, count, count):
        raise ValueError(
            f"scores has shape {tuple(scores.shape)}; for candidates of shape {tuple(candidates.shape)} it must "
            f"be {(batch, slots, count, count)}."
        )
    if not bool(scores.isfinite().all()):
        raise ValueError("scores holds NaN or infinity; the draft's weights or hidden states are damaged.")
    if temperatures.shape != (batch,) or not bool(((temperatures >= 0) & temperatures.isfinite()).all()):
        raise ValueError(
            f"temperatures is {temperatures.tolist()}; pass {batch} finite numbers of at least 0."
        )
    if uniforms is None:
        if bool((temperatures > 0).any()):
            raise ValueError("Sampling needs uniforms, torch.rand(batch, slots); they are left out.")
    elif uniforms.shape != (batch, slots) or not bool(((uniforms >= 0) & (uniforms < 1)).all()):
        raise ValueError(
            f"uniforms has shape {tuple(uniforms.shape)}, from {float(uniforms.min()):g} to "
            f"{float(uniforms.max()):g}; pass torch.rand({batch}, {slots}), numbers in [0, 1)."
        )
