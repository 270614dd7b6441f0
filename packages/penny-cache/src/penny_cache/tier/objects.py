"""Objects by name, and NIXL's OBJ backend as the place where they are."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from penny_cache.engine.agent import Agent
from penny_cache.engine.base import Transferred
from penny_cache.engine.pump import Pump


class Objects(Protocol):
    """Object storage. What fails does so with OSError; nobody says in what time."""

    def exists(self, names: Sequence[str]) -> list[bool]:
        """Whether there is an object of each name; waits for the answers."""

    def get(self, name: str, offset: int, view: memoryview) -> Transferred:
        """Start to read from an object; bytes of `view` behind the object's end are left as they are.

        Fails if there is no such object, or `offset` is behind its end.
        """

    def put(self, name: str, view: memoryview) -> Transferred:
        """Start to write a whole object; it can be seen when it is complete."""

    def close(self, timeout: float) -> None:
        """Take nothing more, and wait up to so many seconds for what was started."""


@dataclass(frozen=True)
class S3:
    """A bucket.

    Attributes:
        bucket: name.
        endpoint: URL of a server that is not Amazon's; `http://` or `https://`.
        region: name.
        access_key, secret_key: None for what the AWS SDK finds by itself (environment, profile, role).
        virtual_hosts: whether the bucket is part of the host's name and not of the path.
        parameters: others of NIXL's OBJ plugin, over those above.
    """

    bucket: str
    endpoint: str | None = None
    region: str = "us-east-1"
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    virtual_hosts: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.endpoint is not None and not self.endpoint.startswith(("http://", "https://")):
            raise ValueError(f"The endpoint {self.endpoint!r} does not start with http:// or https://.")

    def of_nixl(self) -> dict[str, str]:
        """Parameters of the OBJ plugin."""
        given = {
            "bucket": self.bucket,
            "region": self.region,
            "use_virtual_addressing": "true" if self.virtual_hosts else "false",
            # Bundles have checksums of their own, and not every S3 server takes the SDK's.
            "req_checksum": "required",
            "resp_checksum": "required",
        }
        if self.endpoint is not None:
            given |= {"endpoint_override": self.endpoint, "scheme": self.endpoint.partition("://")[0]}
        if self.access_key is not None and self.secret_key is not None:
            given |= {"access_key": self.access_key, "secret_key": self.secret_key}
        return {**given, **self.parameters}


class S3Objects:
    """The objects of a bucket, by NIXL's OBJ backend.

    NIXL says neither how long an object is nor why something failed: an object that is missing, a server that refuses
    and one that is down are the same to `get`, and `exists` tells a missing one from the others. A request to a server
    that is down, or that says nothing, fails after the AWS SDK tried for 25 to 50 seconds.

    Args:
        s3: the bucket.
        depth: requests under way, each in a thread of the SDK.

    Raises:
        NixlMissing: NIXL is not installed, or has no OBJ backend that loads.
    """

    def __init__(self, s3: S3, depth: int = 8) -> None:
        parameters = {"num_threads": str(depth), **s3.of_nixl()}
        self._transfers = Agent("OBJ", "OBJ", parameters)
        # A question waits for its answer with its agent locked.
        self._questions = Agent("OBJ", "OBJ", parameters)
        self._pump = Pump(self._transfers, depth, "penny-cache-s3")
        self._numbers = itertools.count(1)

    def exists(self, names: Sequence[str]) -> list[bool]:
        """Ask for all of them at a time."""
        return self._questions.query(names)

    def get(self, name: str, offset: int, view: memoryview) -> Transferred:
        """One ranged request."""
        return self._submit(False, name, offset, view)

    def put(self, name: str, view: memoryview) -> Transferred:
        """One request."""
        return self._submit(True, name, 0, view)

    def close(self, timeout: float) -> None:
        """What does not end in time goes on in a thread that ends with the process."""
        self._pump.close(timeout)

    def _submit(self, write: bool, name: str, offset: int, view: memoryview) -> Transferred:
        number = next(self._numbers)
        self._transfers.register(number, name)
        array: Any = np.frombuffer(view, np.uint8)
        piece = (array.ctypes.data, array.nbytes, offset)
        done = self._pump.submit(write, number, [piece], [array], _give_up)
        done.add_done_callback(lambda _: self._transfers.deregister(number))
        return done


def _give_up(error: OSError) -> None:
    raise error
