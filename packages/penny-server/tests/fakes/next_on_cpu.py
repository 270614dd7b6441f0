"""What the CPU seams of Flash-Next stand in for: each operation of stock on CPU tensors, before and after them.

Prints one JSON object: for each seam the error of stock's own, and whether the result is right once they are applied.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace

import torch
from sglang.kernels.ops.attention.fla import layernorm_gated
from sglang.kernels.ops.elementwise import elementwise
from sglang.srt.layers.attention.qsa import kernel
from sglang.srt.layers.attention.qsa.qsa_indexer import QSAIndexer

from penny_server.sglang import plugin
from penny_server.sglang.registry import all_seams


def sigmoid_gate() -> bool:
    """rms(3, 4) is sqrt(12.5), and a gate of 0 is open by half."""
    x = torch.tensor([[3.0, 4.0]])
    found = layernorm_gated.RMSNorm(2, eps=0.0, activation="sigmoid")(x, torch.zeros_like(x))
    return torch.allclose(found, x / 12.5**0.5 / 2)


def qsa_indexer() -> bool:
    indexer = SimpleNamespace(_forward_impl=lambda *args: args)
    return QSAIndexer.forward_native(indexer, 1, 2, 3, 4) == (1, 2, 3, 4)


def qsa_keys() -> bool:
    """Two sequences of two and one blocks of four tokens; the first one's second block lies in slots 20 to 23."""
    keys = torch.arange(8.0).view(8, 1, 1).expand(8, 1, 4).contiguous()
    slots = torch.tensor([[8, 9, 10, 11, 20, 21, 22, 23], [28, 29, 30, 31, 0, 0, 0, 0]], dtype=torch.int32)
    starts = torch.tensor([0, 2, 3], dtype=torch.int32)
    found = kernel.gather_qsa_compressed_keys(keys, slots, starts, 3, 2, 4)
    return found[:, 0, 0].tolist() == [2.0, 5.0, 7.0]


def shared_expert() -> bool:
    """Gates of 0 and of log 3 let half and three quarters through."""
    hidden = torch.tensor([[0.0], [1.0]]).expand(2, 1).contiguous()
    output = torch.ones(2, 1)
    elementwise.fused_gate_sigmoid_mul_add(hidden, torch.tensor([3.0]).log(), torch.full((2, 1), 4.0), output)
    return torch.allclose(output, torch.tensor([[3.0], [4.0]]))


CASES: dict[str, Callable[[], bool]] = {
    "cpu-next.sigmoid-gate": sigmoid_gate,
    "cpu-next.qsa-indexer": qsa_indexer,
    "cpu-next.qsa-keys": qsa_keys,
    "cpu-next.shared-expert": shared_expert,
}


def error_of(case: Callable[[], bool]) -> str:
    try:
        case()
    except Exception as error:  # noqa: BLE001 - which one is what is asked
        return type(error).__name__
    return ""


stock = {name: error_of(case) for name, case in CASES.items()}
plugin.apply(tuple(seam for seam in all_seams() if seam.feature in ("cpu", "cpu-next")))
print("@" + json.dumps({"stock": stock, "right": {name: case() for name, case in CASES.items()}}))
