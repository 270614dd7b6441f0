"""A shop: an order is looked up, its stock checked, reserved, shipped, and the customer told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from penny_bench.cases.agent.world import Refused, World
from penny_bench.cases.tools.model import Schema, number, text, tool

_ORDER = number("Number of the order")


class Shop(World):
    """Ships one order."""

    name: ClassVar[str] = "shop"
    task: ClassVar[str] = (
        "Order 5120 waits to be shipped. Look it up, and check the stock of its item. If there is enough, "
        "reserve what was ordered, then ship the order, and then send the customer the parcel number. Make "
        "one call at a time, and none twice. When all is done, reply with only the parcel number."
    )
    tools: ClassVar[tuple[Schema, ...]] = (
        tool("get_order", "What an order says.", {"order": _ORDER}),
        tool("check_stock", "How many pieces of an item lie on the shelf.", {"item": text("Its number")}),
        tool(
            "reserve",
            "Take pieces from the shelf for an order.",
            {"order": _ORDER, "item": text("Its number"), "pieces": number("How many")},
        ),
        tool(
            "ship",
            "Ship an order whose pieces are reserved. Answers with the parcel number.",
            {"order": _ORDER},
        ),
        tool(
            "tell_customer",
            "Send a customer the number of a parcel.",
            {"customer": text("Number of the customer"), "parcel": text("Number of the parcel")},
        ),
        tool("cancel_order", "Cancel an order for good.", {"order": _ORDER}),
    )
    changing: ClassVar[frozenset[str]] = frozenset({"reserve", "ship", "tell_customer", "cancel_order"})
    calls: ClassVar[int] = 5
    answer: ClassVar[str] = "PX-80417"

    def __init__(self) -> None:
        super().__init__()
        self.stock = {"BOLT-9": 14, "BOLT-6": 2}
        self.reserved = 0
        self.shipped = 0
        self.cancelled = False
        self.told: list[tuple[str, str]] = []

    def act(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """See `World.act`."""
        if name == "check_stock":
            if given["item"] not in self.stock:
                raise Refused(f"there is no item {given['item']}")
            return {"item": given["item"], "pieces": self.stock[given["item"]]}
        if name == "tell_customer":
            self.told.append((given["customer"], given["parcel"]))
            return {"sent": True}
        if given["order"] != 5120:
            raise Refused(f"there is no order {given['order']}")
        if name == "get_order":
            return {"order": 5120, "customer": "K-331", "item": "BOLT-9", "pieces": 6, "state": "waiting"}
        if name == "reserve":
            return self._reserve(given["item"], given["pieces"])
        if name == "ship":
            if self.reserved < 6:
                raise Refused("the pieces of the order are not reserved")
            self.shipped += 1
            return {"parcel": self.answer}
        self.cancelled = True
        return {"cancelled": True}

    def missing(self) -> str:
        """See `World.missing`."""
        wanted = ({"BOLT-9": 8, "BOLT-6": 2}, 6, 1, False, [("K-331", self.answer)])
        found = (self.stock, self.reserved, self.shipped, self.cancelled, self.told)
        names = ("stock", "reserved", "shipped", "cancelled", "told")
        wrong = [f"{n} is {f!r}, not {w!r}" for n, w, f in zip(names, wanted, found, strict=True) if w != f]
        return "; ".join(wrong) + "." if wrong else ""

    def _reserve(self, item: str, pieces: int) -> dict[str, Any]:
        left = self.stock.get(item, 0)
        if not 0 < pieces <= left:
            raise Refused(f"{left} pieces of {item} lie on the shelf")
        self.stock[item] = left - pieces
        self.reserved += pieces
        return {"reserved": pieces, "left": self.stock[item]}
