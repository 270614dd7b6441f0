"""What a profile file may say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Device = Literal["cpu", "cuda"]
DEVICES: tuple[Device, ...] = ("cpu", "cuda")

Value = bool | int | float | str | list[int | float | str]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.\-]*$")]
ENV_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
EnvName = Annotated[str, Field(pattern=f"^{ENV_NAME}$")]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelSource(_Table):
    """Where the checkpoint comes from: one of our tiny ones, a folder, or ``--model`` on the command line."""

    tiny: str | None = None
    path: Path | None = None
    required: bool = False

    @model_validator(mode="after")
    def _exactly_one(self) -> ModelSource:
        if sum((self.tiny is not None, self.path is not None, self.required)) != 1:
            raise ValueError('give exactly one of tiny = "NAME", path = "FOLDER" and required = true')
        return self


class DeviceSection(_Table):
    """What one device adds: seam features, SGLang arguments, environment, and the GPUs it was made for.

    Environment values may hold ``{dtype}``, ``{standin}`` and ``{threads}`` (see `resolve`).
    An empty ``compute_capability`` means any NVIDIA GPU.
    """

    features: tuple[str, ...] = ()
    sglang: dict[str, Value] = {}
    env: dict[EnvName, str] = {}
    compute_capability: tuple[str, ...] = ()


class Defaults(_Table):
    """Where the server listens unless the command line says otherwise."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65535)] = 8001


class Profile(_Table):
    """One launch profile. ``features``, ``[sglang]`` and ``[env]`` hold for every device with a section."""

    name: Name
    summary: str
    model: ModelSource
    features: tuple[str, ...] = ()
    sglang: dict[str, Value] = {}
    env: dict[EnvName, str] = {}
    cpu: DeviceSection | None = None
    cuda: DeviceSection | None = None
    defaults: Defaults = Defaults()

    @model_validator(mode="after")
    def _some_device(self) -> Profile:
        if not self.devices:
            raise ValueError("a profile needs a [cpu] or a [cuda] section")
        return self

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices that the profile has a section for."""
        return tuple(device for device in DEVICES if getattr(self, device) is not None)

    def section(self, device: Device) -> DeviceSection:
        """The section of ``device``; raises KeyError when the profile has none."""
        section: DeviceSection | None = getattr(self, device)
        if section is None:
            raise KeyError(device)
        return section
