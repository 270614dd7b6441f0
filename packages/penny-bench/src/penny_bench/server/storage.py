"""The tiers behind the device's prefix cache, and the name under which storage keeps what it holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

_DIRECTORIES = ("namespace_dir", "storage_dir", "file_storage_path", "storage_path", "path", "dir", "root")


@dataclass(frozen=True, kw_only=True)
class Storage:
    """None is what the server does not tell.

    Attributes:
        host: whether there is a host tier; None if that is not told.
        backend: name of the storage behind it; None without any, see `told`.
        told: whether the server says what storage it has.
        write_policy, prefetch_policy: when prefixes go down, and how long a request waits for them.
        namespace: what separates this server's objects from those of others: the name that the back end's
            configuration gives, or the last part of its folder. Never a path.
        reason: why `namespace` is None, as a sentence; "" if it is told or there is no storage.
    """

    host: bool | None
    backend: str | None
    told: bool
    write_policy: str | None = None
    prefetch_policy: str | None = None
    namespace: str | None = None
    reason: str = ""


def storage(info: Mapping[str, Any] | None) -> Storage:
    """From SGLang's `/server_info`.

    `GET /hicache/storage-backend` would say what was attached later, but only to who has the admin key, and with paths.
    """
    info = info or {}
    if "hicache_storage_backend" not in info:
        return Storage(host=None, backend=None, told=False, reason="The server does not tell its storage.")
    linked = info.get("enable_unified_cache_external_linker") is True
    backend = (
        info.get("unified_cache_external_linker_backend") if linked else info.get("hicache_storage_backend")
    )
    if info.get("enable_lmcache") is True:
        backend = "lmcache"
    host = info.get("enable_hierarchical_cache") is True
    if not isinstance(backend, str):
        return Storage(host=host, backend=None, told=True)
    name, reason = _namespace(info, linked)
    return Storage(
        host=host,
        backend=backend,
        told=True,
        write_policy=_text(info.get("hicache_write_policy")),
        prefetch_policy=_text(info.get("hicache_storage_prefetch_policy")),
        namespace=name,
        reason=reason,
    )


def _namespace(info: Mapping[str, Any], linked: bool) -> tuple[str | None, str]:
    given = info.get(
        "unified_cache_external_linker_config" if linked else "hicache_storage_backend_extra_config"
    )
    if isinstance(given, str) and given.startswith("@"):
        return None, f"The storage is configured by the file {PurePosixPath(given[1:]).name} on the server."
    try:
        config = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return None, "The configuration of the storage is not JSON."
    config = config if isinstance(config, dict) else {}
    if name := _text(config.get("namespace")):
        return PurePosixPath(name).name, ""
    for source in (config, info):
        for key in _DIRECTORIES:
            if isinstance(source.get(key), str) and source[key].startswith(("/", "~", ".")):
                return PurePosixPath(source[key]).name, ""
    return None, "The server's arguments name no folder; its environment may, which it does not tell."


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
