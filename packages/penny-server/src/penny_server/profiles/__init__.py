"""Launch profiles: what to serve and how, as TOML, and what that resolves to on a device."""

from penny_server.profiles.launch import Launch, Surroundings, resolve
from penny_server.profiles.loader import DEFAULT_PROFILE, load, load_all, names
from penny_server.profiles.overrides import Overrides, parse_overrides
from penny_server.profiles.schema import Device, DeviceSection, Profile

__all__ = [
    "DEFAULT_PROFILE",
    "Device",
    "DeviceSection",
    "Launch",
    "Overrides",
    "Profile",
    "Surroundings",
    "load",
    "load_all",
    "names",
    "parse_overrides",
    "resolve",
]
