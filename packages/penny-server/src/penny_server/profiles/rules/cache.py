"""Host memory and disk tiers, and the n-gram tables: settings that contradict each other or are half given."""

from __future__ import annotations

from penny_server.profiles.backends import SM120
from penny_server.profiles.options import JSON, as_table
from penny_server.profiles.rules.base import Case, Rule, refuse


def _json(case: Case) -> None:
    for name in JSON:
        as_table(name, case.get(name))


def _ple(case: Case) -> None:
    backend, model = case.options.get("ple_backend"), case.options.get("ple_nvme_model")
    file_backend = case.get("ple_offload_backend") == "file"
    if backend == "nvme":
        other = next(
            (k for k in ("ple_offload_embedding", "ple_offload_backend", "ple_offload_dir") if case.get(k)),
            "",
        )
        if other:
            refuse(
                f"ple_backend is nvme and {other} is {case.get(other)}: those are two places for the n-gram tables.",
                "Take one of them away.",
            )
        if model is None:
            refuse(
                "ple_backend is nvme and ple_nvme_model is not set.",
                "Set ple_nvme_model to the folder that was prepared for it.",
            )
    elif model is not None:
        refuse(f"ple_nvme_model is set and ple_backend is {backend or 'not'}: set ple_backend to nvme too.")
    if backend == "ram" and (file_backend or case.get("ple_offload_embedding") is False):
        what = "ple_offload_backend is file" if file_backend else "ple_offload_embedding is false"
        refuse(
            f"ple_backend is ram and {what}: those are two places for the n-gram tables.",
            "Take one of them away.",
        )
    if file_backend and case.capability == SM120:
        refuse(
            "ple_offload_backend file needs a GPU that reads the host's page tables, and this one has its own memory.",
            "Set ple_offload_backend to pinned.",
        )
    if case.get("ple_offload_dir") and not file_backend:
        refuse(
            "ple_offload_dir is set and ple_offload_backend is not file, so nothing would be read from it."
        )


def _tiers(case: Case) -> None:
    given = [name for name, value in case.settings.items() if name.startswith("hicache_") and value]
    if given and not case.get("enable_hierarchical_cache"):
        refuse(
            f"{given[0]} is set and enable_hierarchical_cache is not, so there is no host tier.",
            f"Set enable_hierarchical_cache=true, or take it away: --set {given[0]}=",
        )
    if not given:
        return
    if case.get("disable_radix_cache"):
        refuse(
            "enable_hierarchical_cache and disable_radix_cache are both set; the host tier belongs to the radix cache."
        )
    storage = [n for n in given if n.startswith("hicache_storage_") and n != "hicache_storage_backend"]
    if storage and not case.get("hicache_storage_backend"):
        refuse(f"{storage[0]} is set and hicache_storage_backend is not, so nothing is stored.")
    layout = case.get("hicache_mem_layout", "page_first")
    if layout not in ("page_first", "page_first_direct"):
        refuse(
            f"hicache_mem_layout is {layout}, and recurrent state on the host needs page_first or page_first_direct.",
        )


RULES: tuple[Rule, ...] = (_json, _ple, _tiers)
