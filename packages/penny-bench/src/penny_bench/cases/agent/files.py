"""A folder of files: a request says what to change in a configuration, and is put away afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from penny_bench.cases.agent.world import Refused, World
from penny_bench.cases.tools.model import Schema, text, tool

_PATH = text("Path of the file")
_CONFIG = '# oven\nname = "east"\nlimit = 240\n\n[alarm]\nlimit = 260\nto = "desk"\n'


class Files(World):
    """Changes one line of one file."""

    name: ClassVar[str] = "files"
    task: ClassVar[str] = (
        "A request for a change of the file oven.toml lies in the folder inbox. List that folder, read the "
        "request and then oven.toml, write oven.toml anew with just that change and every other character as "
        "it was, and move the request into the folder done under its own name. Make one call at a time, and "
        "none twice. When all is done, reply with only the new value of the setting."
    )
    tools: ClassVar[tuple[Schema, ...]] = (
        tool("list_folder", "Names of the files in a folder.", {"folder": text("Name of the folder")}),
        tool("read_file", "All that is in a file.", {"path": _PATH}),
        tool("write_file", "Write a file anew.", {"path": _PATH, "content": text("All that shall be in it")}),
        tool("move_file", "Move a file.", {"path": _PATH, "to": text("Its new path")}),
        tool("delete_file", "Delete a file for good.", {"path": _PATH}),
    )
    changing: ClassVar[frozenset[str]] = frozenset({"write_file", "move_file", "delete_file"})
    calls: ClassVar[int] = 5
    answer: ClassVar[str] = "275"

    _REQUEST = "The limit of the alarm shall be 275. Leave the other limit alone.\n"

    def __init__(self) -> None:
        super().__init__()
        self.files = {"oven.toml": _CONFIG, "inbox/request-31.txt": self._REQUEST}

    def act(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """See `World.act`."""
        if name == "list_folder":
            folder = _normal(given["folder"]).strip("/")
            inside = [
                path for path in self.files if path.rpartition("/")[0] == ("" if folder == "." else folder)
            ]
            return {"files": [path.rpartition("/")[2] for path in inside]}
        path = _normal(given["path"])
        if name == "write_file":
            self.files[path] = given["content"]
            return {"written": len(given["content"].encode())}
        if path not in self.files:
            raise Refused(f"there is no file {path}")
        if name == "read_file":
            return {"content": self.files[path]}
        if name == "move_file":
            to = _normal(given["to"])
            if to in self.files:
                raise Refused(f"there is already a file {to}")
            self.files[to] = self.files.pop(path)
            return {"moved": to}
        del self.files[path]
        return {"deleted": path}

    def missing(self) -> str:
        """See `World.missing`."""
        wanted = {"oven.toml": _CONFIG.replace("260", "275"), "done/request-31.txt": self._REQUEST}
        wrong = [
            f"{path} is {self.files.get(path)!r}, not {wanted.get(path)!r}"
            for path in sorted(wanted.keys() | self.files.keys())
            if self.files.get(path) != wanted.get(path)
        ]
        return "; ".join(wrong) + "." if wrong else ""


def _normal(path: str) -> str:
    return path.removeprefix("./").lstrip("/")
