"""The mask that stock's XQA verification hands to its kernels is the packed mask of a chain."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from penny_kernels.ops.verify_attention import chain_mask, pack_mask

NAMES = ("words_per_row", "row", "word", "bits", "mask")
"""The variables that stock's back end sets one after the other before it stores the mask."""


def stock_lines() -> list[ast.stmt]:
    """The statements of stock's constructor that make the mask; read, not imported."""
    spec = find_spec("sglang")
    assert spec is not None
    assert spec.origin is not None
    file = Path(spec.origin).parent / "srt/layers/attention/trtllm_mha_backend.py"
    branches = [
        node.body
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.If) and ast.unparse(node.body[-1]).startswith("self._xqa_spec_dec_mask =")
    ]
    assert len(branches) == 1
    return [
        line
        for line in branches[0]
        if isinstance(line, ast.Assign)
        and isinstance(line.targets[0], ast.Name)
        and line.targets[0].id in NAMES
    ]


@pytest.mark.parametrize("width", range(2, 17))
def test_stock_packs_a_chain(width: int) -> None:
    lines = stock_lines()
    assert [ast.unparse(line.targets[0]) for line in lines if isinstance(line, ast.Assign)] == list(NAMES)
    names = {"torch": torch, "draft_len": width}
    exec(compile(ast.Module(lines, []), "stock", "exec"), names)
    assert torch.equal(torch.as_tensor(names["mask"]), pack_mask(chain_mask(width)))
