"""Copies of KV and state rows inside the pool and between the pool and HiCache's host tier."""

import ctypes

import torch
from torch import Tensor

from penny_kernels.cpu.operations import operation


@operation("sgl_kernel")
def copy_all_layer_kv_cache_cpu(data_ptrs: Tensor, strides: Tensor, tgt_loc: Tensor, src_loc: Tensor) -> None:
    """Move rows ``src_loc`` to ``tgt_loc`` in every buffer, as if all were read before any is written.

    Args:
        data_ptrs: [buffers] uint64, addresses of the K and V buffers of all layers.
        strides: [buffers], bytes per row.
        tgt_loc, src_loc: [rows].
    """
    if tgt_loc.numel() == 0:
        return
    source, target = src_loc.to(torch.int64), tgt_loc.to(torch.int64)
    rows = int(torch.maximum(source.max(), target.max())) + 1
    for address, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        memory = (ctypes.c_uint8 * (rows * stride)).from_address(address)
        buffer = torch.frombuffer(memory, dtype=torch.uint8).view(rows, stride)
        buffer[target] = buffer[source]


@operation("sgl_kernel.kvcacheio")
def transfer_kv_direct(
    src_layers: list[Tensor],
    dst_layers: list[Tensor],
    src_indices: Tensor,
    dst_indices: Tensor,
    page_size: int,
) -> None:
    """Copy token rows layer by layer, both sides [tokens, ...] (layout ``layer_first``)."""
    for src, dst in zip(src_layers, dst_layers, strict=True):
        dst[dst_indices] = src[src_indices].to(dst.dtype)


@operation("sgl_kernel.kvcacheio")
def transfer_kv_per_layer_direct_pf_lf(
    src_ptrs: list[Tensor],
    dst_ptrs: list[Tensor],
    src_indices: Tensor,
    dst_indices: Tensor,
    layer_id: int,
    page_size: int,
) -> None:
    """Copy one layer from host pages to the pool (layout ``page_first_direct``).

    Args:
        src_ptrs: host buffers [pages, layers, page_size, ...]; ``dst_ptrs``: pool buffers [tokens, ...].
        src_indices, dst_indices: [tokens], whole pages in order.
    """
    pages = src_indices[::page_size] // page_size
    for src, dst in zip(src_ptrs, dst_ptrs, strict=True):
        dst[dst_indices] = src[pages, layer_id].reshape(-1, *dst.shape[1:])


@operation("sgl_kernel.kvcacheio")
def transfer_kv_all_layer_direct_lf_pf(
    src_ptrs: list[Tensor], dst_ptrs: list[Tensor], src_indices: Tensor, dst_indices: Tensor, page_size: int
) -> None:
    """Copy all layers from the pool to host pages, the reverse of the above.

    Args:
        src_ptrs: pool buffers, first the layers of ``dst_ptrs[0]``, then those of ``dst_ptrs[1]``, ...
        dst_ptrs: host buffers [pages, layers, page_size, ...].
    """
    pages = dst_indices[::page_size] // page_size
    layers = len(src_ptrs) // len(dst_ptrs)
    for number, src in enumerate(src_ptrs):
        dst = dst_ptrs[number // layers]
        dst[pages, number % layers] = src[src_indices].reshape(-1, *dst.shape[2:])
