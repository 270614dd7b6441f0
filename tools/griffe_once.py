"""A griffe extension for the API pages: each name is documented where it is defined, and only there."""

from __future__ import annotations

from typing import Any

import griffe


class DocumentOnce(griffe.Extension):
    """Drop the names that a package's `__init__` only passes on from its own submodules."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Called by griffe with each loaded package."""
        self._drop(pkg, pkg.path)

    def _drop(self, module: griffe.Module, root: str) -> None:
        for name, member in list(module.members.items()):
            if isinstance(member, griffe.Alias):
                if member.target_path.startswith(f"{root}."):
                    module.del_member(name)
            elif isinstance(member, griffe.Module):
                self._drop(member, root)
