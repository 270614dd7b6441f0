"""The few calls of NVML that a report needs, straight from the driver's library.

Source: NVML API Reference Guide, R580, sections "Device Queries" and "System Queries".
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char, c_uint, c_void_p
from dataclasses import dataclass
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
_GRAPHICS, _MEMORY = 0, 2  # nvmlClockType_t
_TEMPERATURE_GPU = 0  # nvmlTemperatureSensors_t


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine.

    Attributes:
        index: as NVML counts them.
        name: as the driver calls it.
        driver: version of the driver.
    """

    index: int
    name: str
    driver: str


@dataclass(frozen=True)
class GpuState:
    """What a GPU is doing. None where it does not say.

    Attributes:
        power: W.
        graphics_clock, memory_clock: MHz.
        temperature: degrees Celsius.
    """

    power: float | None
    graphics_clock: int | None
    memory_clock: int | None
    temperature: int | None


class Nvml:
    """NVML, initialised. Close it when done."""

    def __init__(self, library: Any) -> None:
        """`library` is the loaded library, or something with its functions."""
        self._library = library
        self._handles: list[c_void_p] = []
        count = c_uint()
        if library.nvmlDeviceGetCount_v2(byref(count)) == 0:
            for index in range(count.value):
                handle = c_void_p()
                if library.nvmlDeviceGetHandleByIndex_v2(c_uint(index), byref(handle)) == 0:
                    self._handles.append(handle)

    @classmethod
    def load(cls, library: str = LIBRARY) -> Nvml | None:
        """NVML of this machine; None without an NVIDIA driver that works."""
        try:
            loaded = ctypes.CDLL(library)
        except OSError:
            return None
        return cls(loaded) if loaded.nvmlInit_v2() == 0 else None

    def close(self) -> None:
        """Release the library."""
        self._library.nvmlShutdown()

    def gpus(self) -> list[Gpu]:
        """All GPUs that answer."""
        driver = self._text("nvmlSystemGetDriverVersion")
        return [
            Gpu(index, self._text("nvmlDeviceGetName", handle), driver)
            for index, handle in enumerate(self._handles)
        ]

    def state(self, index: int) -> GpuState:
        """What GPU `index` is doing now."""
        handle = self._handles[index]
        milliwatts = self._number("nvmlDeviceGetPowerUsage", handle)
        return GpuState(
            power=None if milliwatts is None else milliwatts / 1000,
            graphics_clock=self._number("nvmlDeviceGetClockInfo", handle, c_uint(_GRAPHICS)),
            memory_clock=self._number("nvmlDeviceGetClockInfo", handle, c_uint(_MEMORY)),
            temperature=self._number("nvmlDeviceGetTemperature", handle, c_uint(_TEMPERATURE_GPU)),
        )

    def _number(self, function: str, *arguments: Any) -> int | None:
        value = c_uint()
        return value.value if getattr(self._library, function)(*arguments, byref(value)) == 0 else None

    def _text(self, function: str, *arguments: Any) -> str:
        buffer = (c_char * 96)()
        found = getattr(self._library, function)(*arguments, buffer, c_uint(len(buffer))) == 0
        return buffer.value.decode(errors="replace") if found else "unknown"
