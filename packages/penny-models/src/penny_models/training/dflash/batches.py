"""Batches of the draft's training: long windows of real text, and the target's own continuations."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from penny_models.training.continuations import continue_prompts, slices
from penny_models.training.dflash.target import Target

GREEDY_SHARE = 0.5
TEXT_EVERY = 3
"""One step in this many is on real text."""


@dataclass(frozen=True)
class Sizes:
    """How much is generated and how large a step is."""

    continuations: int = 16_384
    """Prompts that the target continues."""
    generated: int = 4096
    """Prompts continued at once."""
    prompts: tuple[int, ...] = (64, 128, 256)
    """Tokens of a prompt; the lengths take turns."""
    length: int = 512
    """Tokens of a prompt and its continuation."""
    rows: int = 32
    """Continuations in a step."""
    blocks: int = 64
    """Blocks in each continuation of a step."""
    text_length: int = 2048
    text_rows: int = 8
    text_blocks: int = 128

    @classmethod
    def small(cls) -> "Sizes":
        """Return sizes for a trial on one processor core."""
        return cls(256, 128, (64, 128), 384, 2, 64, 512, 1, 128)


@dataclass(frozen=True)
class Batch:
    """Tokens [B, T], the positions of the anchors [B, N], and whether each row [B] is greedy text."""

    tokens: Tensor
    anchors: Tensor
    greedy: Tensor

    def copy_(self, other: "Batch") -> None:
        """Take the values of a batch of the same shape."""
        self.tokens.copy_(other.tokens)
        self.anchors.copy_(other.anchors)
        self.greedy.copy_(other.greedy)


@dataclass(frozen=True)
class Continuations:
    """Texts [M, T] that start with a prompt of ``prompts`` [M] tokens; half are greedy, half at temperature 1."""

    tokens: Tensor
    prompts: Tensor
    greedy: Tensor


def continuations(target: Target, stream: Tensor, sizes: Sizes, seed: int) -> Continuations:
    """Let the target continue slices of the training stream; half of them greedily."""
    generator = torch.Generator().manual_seed(seed)
    texts: list[Tensor] = []
    prompts: list[Tensor] = []
    greedy: list[Tensor] = []
    for index in range(-(-sizes.continuations // sizes.generated)):
        length = sizes.prompts[index % len(sizes.prompts)]
        start = slices(stream, sizes.generated, length, generator)
        best = torch.arange(sizes.generated, device=stream.device) < sizes.generated * GREEDY_SHARE
        heat = (~best).float()
        texts.append(continue_prompts(target.model, start, sizes.length - length, heat, seed + index))
        prompts.append(torch.full_like(start[:, 0], length))
        greedy.append(best)
    return Continuations(torch.cat(texts).int(), torch.cat(prompts), torch.cat(greedy))


def draw_anchors(
    first: Tensor, length: int, blocks: int, block_size: int, generator: torch.Generator
) -> Tensor:
    """Return different random anchors [B, blocks], at least ``first`` [B], whose blocks end inside the text."""
    device = first.device
    draws = torch.rand(len(first), length, device=device, generator=generator)
    places = torch.arange(length, device=device)
    outside = (places < first.unsqueeze(-1)) | (places > length - block_size)
    return draws.masked_fill(outside, -1.0).topk(blocks).indices


def training_batches(
    stream: Tensor, made: Continuations, sizes: Sizes, block_size: int, seed: int
) -> Iterator[Batch]:
    """Yield batches without end. A block of a continuation starts at the earliest with its first new token."""
    order = torch.Generator().manual_seed(seed)
    draw = torch.Generator(stream.device).manual_seed(seed)
    step = 0
    while True:
        if step % TEXT_EVERY == 0:
            tokens = slices(stream, sizes.text_rows, sizes.text_length, order)
            first = torch.ones_like(tokens[:, 0])
            greedy = torch.zeros_like(first, dtype=torch.bool)
            anchors = draw_anchors(first, sizes.text_length, sizes.text_blocks, block_size, draw)
        else:
            chosen = torch.randint(0, len(made.tokens), (sizes.rows,), generator=order).to(stream.device)
            tokens, first, greedy = made.tokens[chosen].long(), made.prompts[chosen], made.greedy[chosen]
            anchors = draw_anchors(first, sizes.length, sizes.blocks, block_size, draw)
        yield Batch(tokens, anchors, greedy)
        step += 1
