"""The seeded sampler's hash against MurmurHash3 from its specification, checked on known vectors."""

import struct

import pytest
import torch

from penny_kernels.cpu.murmur_hash import murmur_hash32_cpu


def murmur3(data: bytes, h: int = 0) -> int:
    """MurmurHash3_x86_32 of whole 4-byte blocks, one Python integer at a time."""
    size = len(data)
    for (k,) in struct.iter_unpack("<I", data):
        k = k * 0xCC9E2D51 % 2**32
        k = (k << 15 | k >> 17) % 2**32
        h ^= k * 0x1B873593 % 2**32
        h = (h << 13 | h >> 19) % 2**32
        h = (h * 5 + 0xE6546B64) % 2**32
    h ^= size
    h = (h ^ h >> 16) * 0x85EBCA6B % 2**32
    h = (h ^ h >> 13) * 0xC2B2AE35 % 2**32
    return h ^ h >> 16


@pytest.mark.parametrize(
    ("data", "seed", "known"),
    [
        (b"", 1, 0x514E28B7),
        (b"\0\0\0\0", 0, 0x2362F9DE),
        (b"\xff\xff\xff\xff", 0, 0x76293B50),
        (b"\x21\x43\x65\x87", 0, 0xF55B516B),
        (b"\x21\x43\x65\x87", 0x5082EDEE, 0x2362F9DE),
    ],
)
def test_the_oracle_gives_the_known_vectors(data: bytes, seed: int, known: int) -> None:
    assert murmur3(data, seed) == known


@pytest.mark.parametrize("seed_type", [torch.int64, torch.uint64])
def test_equals_murmur3_of_the_sixteen_bytes(seed_type: torch.dtype) -> None:
    seeds, positions, columns = (
        [0, 1, 42, 2**63 - 1, 2**32 + 7],
        [0, 9, 4095, 524287, 3],
        [0, 1, 4095, 248319],
    )
    found = murmur_hash32_cpu(
        torch.tensor(seeds).to(seed_type), torch.tensor(positions), torch.tensor(columns)
    )
    assert found.dtype == torch.uint32
    wanted = [
        [murmur3(struct.pack("<QII", s, p, c)) for c in columns]
        for s, p in zip(seeds, positions, strict=True)
    ]
    assert found.tolist() == wanted


def test_negative_seed_is_its_twos_complement() -> None:
    found = murmur_hash32_cpu(torch.tensor([-5]), torch.tensor([1], dtype=torch.int32), torch.tensor([2]))
    assert found.item() == murmur3(struct.pack("<qII", -5, 1, 2))
