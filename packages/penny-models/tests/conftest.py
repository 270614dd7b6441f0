"""The shipped checkpoint, and a copy of it to damage."""

import shutil
from pathlib import Path

import pytest

from penny_models import tiny


@pytest.fixture(scope="session")
def shipped() -> Path:
    return tiny.path("tiny-27b")


@pytest.fixture
def checkpoint(shipped: Path, tmp_path: Path) -> Path:
    """A copy of what serving needs, which a test may damage."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for file in shipped.iterdir():
        if file.suffix in (".json", ".safetensors"):
            shutil.copyfile(file, folder / file.name)
    return folder
