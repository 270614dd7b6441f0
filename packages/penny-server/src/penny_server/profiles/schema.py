"""What a profile file may say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

Device = Literal["cpu", "cuda"]
DEVICES: tuple[Device, ...] = ("cpu", "cuda")

Value = bool | int | float | str | list[int | float | str] | dict[str, Any]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.\-]*$")]
ENV_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
EnvName = Annotated[str, Field(pattern=f"^{ENV_NAME}$")]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelSource(_Table):
    """Where a checkpoint comes from: one of our tiny ones, a folder, or the command line."""

    tiny: str | None = None
    path: Path | None = None
    required: bool = False

    @model_validator(mode="after")
    def _exactly_one(self) -> ModelSource:
        if sum((self.tiny is not None, self.path is not None, self.required)) != 1:
            raise ValueError('give exactly one of tiny = "NAME", path = "FOLDER" and required = true')
        return self


class MapSource(_Table):
    """Where a draft-vocabulary map comes from: one of our tiny ones. A file is an SGLang argument."""

    tiny: str


class Settings(_Table):
    """SGLang arguments and environment. An empty text takes a setting away, so that SGLang's default holds."""

    sglang: dict[str, Value] = {}
    env: dict[EnvName, str] = {}


class Asserts(_Table):
    """What must be true of a server that is ready, or it is stopped (see `asserted`).

    Attributes:
        pool_tokens, requests, recurrent_slots: The least that the pools hold and serve at once.
        free_gib: The least GPU memory that is free when all is done, in GiB.
        backends: Patterns, as of file names, for the implementation of an operation or of all operations that a
            pattern names: ``"attention, *" = "Triton*"``.
        seams: Seams that the processes must have proven active, by name.
    """

    pool_tokens: Annotated[int, Field(ge=1)] | None = None
    requests: Annotated[int, Field(ge=1)] | None = None
    recurrent_slots: Annotated[int, Field(ge=1)] | None = None
    free_gib: Annotated[float, Field(gt=0)] | None = None
    backends: dict[str, str] = {}
    seams: tuple[str, ...] = ()

    def under(self, stronger: Asserts) -> Asserts:
        """Both together; ``stronger`` wins."""
        values = self.model_dump() | {
            key: value for key, value in stronger.model_dump().items() if value not in (None, {}, ())
        }
        return Asserts(
            **values
            | {"backends": self.backends | stronger.backends, "seams": (*self.seams, *stronger.seams)}
        )


class DeviceSection(Settings):
    """What one device adds: seam features, SGLang arguments, environment, and the GPUs it was made for.

    Environment values may hold ``{dtype}``, ``{standin}`` and ``{threads}`` (see `resolve`).
    An empty ``compute_capability`` means any NVIDIA GPU; ``vram_gib`` is the least memory of each GPU in GiB.
    """

    features: tuple[str, ...] = ()
    compute_capability: tuple[str, ...] = ()
    vram_gib: Annotated[float, Field(ge=0)] = 0
    asserts: Annotated[Asserts, Field(alias="assert")] = Asserts()


class Need(Settings):
    """A feature that the profile is made for and that is not built yet, with the settings that belong to it.

    ``without`` holds instead when the server is started without the feature (``penny serve --without NAME``).
    """

    without: Settings = Settings()


class Defaults(_Table):
    """Where the server listens unless the command line says otherwise."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65535)] = 8001


class Profile(_Table):
    """One launch profile. ``features``, ``[sglang]`` and ``[env]`` hold for every device with a section.

    Attributes:
        draft: Where the checkpoint of the draft model comes from; None for no draft or one inside the model's.
        token_map: The draft vocabulary that comes with the package; ``speculative_token_map`` names a file instead.
        options: Settings of ours that stand for several of SGLang's (see `options`).
        needs: Features that are not built yet, by name; a start is refused with these names.
        asserts: What must be true once the server is ready, written as ``[assert]``, for one device ``[cpu.assert]``.
        tp: What changes for two GPUs and more, by the number of GPUs; without an entry that number is refused.
    """

    name: Name
    summary: str
    model: ModelSource
    draft: ModelSource | None = None
    token_map: MapSource | None = None
    features: tuple[str, ...] = ()
    options: dict[str, Value] = {}
    sglang: dict[str, Value] = {}
    env: dict[EnvName, str] = {}
    needs: dict[str, Need] = {}
    tp: dict[int, Settings] = {}
    cpu: DeviceSection | None = None
    cuda: DeviceSection | None = None
    asserts: Annotated[Asserts, Field(alias="assert")] = Asserts()
    defaults: Defaults = Defaults()
    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def sources(self) -> Mapping[str, str]:
        """Which profile each setting comes from, by its place in the file, where the profile extends others."""
        return self._sources

    def extending(self, sources: Mapping[str, str]) -> Profile:
        """This profile with its `sources` noted."""
        self._sources.update(sources)
        return self

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
