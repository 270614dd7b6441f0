"""What one verification of ``xqa_verify.py`` gets: the 27B's shape, paged keys and values, queries and masks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from penny_kernels.ops.verify_attention import chain_mask, pack_mask, verify_attention

HEADS, KV_HEADS, DIM = 24, 4, 256
SCALE = DIM**-0.5
DTYPES = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
ALONG = 16.0
"""Length of the queries along the direction in which the block's keys lie."""


@dataclass(frozen=True)
class Case:
    """One kind of verification; ``context`` is what precedes the block."""

    width: int
    batch: int
    context: int
    kv: str
    page: int


class Cache:
    """Paged keys and values of one layer, [pages, page, kv_heads, dim], with the block's place marked."""

    def __init__(self, case: Case, device: str, seed: int) -> None:
        self.case = case
        self.random = torch.Generator(device).manual_seed(seed)
        self.each = -(-(case.context + case.width) // case.page) + 1
        shape = (case.batch * self.each, case.page, KV_HEADS, DIM)
        self.keys, self.values = (self.normal(shape).to(DTYPES[case.kv]) for _ in range(2))

    def normal(self, shape: tuple[int, ...]) -> Tensor:
        """Standard normal numbers, bfloat16."""
        return torch.randn(shape, generator=self.random, device=self.random.device, dtype=torch.bfloat16)

    def block(self, table: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Page and place in it of each token of the blocks, [batch * width] each."""
        width, page = self.case.width, self.case.page
        at = lengths[:, None] - width + torch.arange(width, device=lengths.device)
        return table.gather(1, at // page).flatten().long(), (at % page).flatten().long()

    def mark(self, table: Tensor, lengths: Tensor, toward: Tensor) -> None:
        """Puts new keys at the blocks, much alike: together they weigh about as much as all before them."""
        place = self.block(table, lengths)
        shift = math.log(max(2.0, self.case.context / self.case.width)) + 1
        fresh = self.normal((place[0].numel(), KV_HEADS, DIM)) / 4 + shift * toward
        self.keys[place] = fresh.to(self.keys.dtype)

    def unmark(self, table: Tensor, lengths: Tensor) -> None:
        """Makes the blocks' keys ordinary again."""
        place = self.block(table, lengths)
        self.keys[place] = self.normal((place[0].numel(), KV_HEADS, DIM)).to(self.keys.dtype)


class Inputs:
    """What one verification gets; tensors keep their addresses, so that a captured graph sees changes."""

    def __init__(self, case: Case, device: str, table_tokens: int, seed: int) -> None:
        self.case, self.cache = case, Cache(case, device, seed)
        self.toward = F.normalize(
            torch.randn(DIM, generator=self.cache.random, device=device), dim=0
        ).bfloat16()
        self.query = torch.empty(case.batch * case.width, HEADS, DIM, dtype=torch.bfloat16, device=device)
        columns = max(-(-table_tokens // case.page), self.cache.each)
        self.table = torch.zeros(case.batch, columns, dtype=torch.int32, device=device)
        self.lengths = torch.full((case.batch,), case.context + case.width, dtype=torch.int32, device=device)
        self.seen = torch.empty(case.batch, case.width, case.width, dtype=torch.bool, device=device)
        self.mask = pack_mask(self.seen.fill_(False))
        self.out = torch.empty_like(self.query)
        self.draw(step=0, chain=True)

    def draw(self, step: int, chain: bool) -> None:
        """New queries, pages and masks; from step 1 on also lengths: odd ones, other for each request."""
        case, random = self.case, self.cache.random
        if step:
            self.cache.unmark(self.table, self.lengths)
        pages = torch.randperm(len(self.cache.keys), generator=random, device=random.device)
        self.table[:, : self.cache.each] = pages.view(case.batch, self.cache.each)
        less = torch.arange(1, case.batch + 1, device=random.device) * (17 * step)
        self.lengths.copy_((case.context + case.width - less).clamp_min(case.width + 1))
        self.query.copy_(self.cache.normal(tuple(self.query.shape)) + ALONG * self.toward)
        self.cache.mark(self.table, self.lengths, self.toward)
        self.seen.copy_(chain_mask(case.width).to(random.device))
        if not chain:
            noise = torch.rand(self.seen.shape, generator=random, device=random.device) < 0.5
            self.seen.logical_and_(noise).logical_or_(
                torch.eye(case.width, dtype=torch.bool, device=random.device)
            )
        self.mask.copy_(pack_mask(self.seen))

    def truth(self, seen: Tensor | None = None) -> Tensor:
        """Float64 [batch * width, heads, dim]."""
        query = self.query.unflatten(0, (self.case.batch, self.case.width))
        seen = self.seen if seen is None else seen
        pages = self.cache.keys, self.cache.values
        return verify_attention(query, *pages, self.table, self.lengths, seen, SCALE).flatten(0, 1)
