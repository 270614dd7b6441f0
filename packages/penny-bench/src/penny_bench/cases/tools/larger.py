"""Cases 11 to 16: nested arguments, arithmetic, agents, long histories, conversations at once, unknown tools."""

from penny_bench.cases.tools.basics import CALCULATE, WEATHER
from penny_bench.cases.tools.history import called, user_message
from penny_bench.cases.tools.model import Expect, Invocation, ToolCase, choice, text, tool

_PANEL = {
    "type": "object",
    "properties": {
        "kind": choice("line", "gauge", "table"),
        "metric": text("Name of the metric"),
        "labels": {
            "type": "object",
            "description": "Labels that the metric must have; {} for none",
            "additionalProperties": {"type": "string"},
        },
        "size": {
            "type": "array",
            "description": "Width and height",
            "items": {"type": "integer", "minimum": 1},
            "minItems": 2,
            "maxItems": 2,
        },
    },
    "required": ["kind", "metric", "labels", "size"],
    "additionalProperties": False,
}

NESTED = ToolCase(
    "11 JSON",
    "An argument with lists and objects inside.",
    (
        tool(
            "create_dashboard",
            "Create a dashboard.",
            {
                "title": text("Its title"),
                "refresh": {"type": ["integer", "null"], "description": "Seconds, null for never"},
                "panels": {"type": "array", "items": _PANEL},
            },
        ),
    ),
    (
        Invocation(
            "Create a dashboard with the title Kiln 4 that never refreshes. Its first panel is a line, 12 "
            "wide and 6 high, of the metric kiln_temp where the label zone is north; its second one is a "
            "gauge, 4 wide and 3 high, of the metric kiln_fuel without any label.",
            calls=(
                Expect(
                    "create_dashboard",
                    {
                        "title": "Kiln 4",
                        "refresh": None,
                        "panels": [
                            {
                                "kind": "line",
                                "metric": "kiln_temp",
                                "labels": {"zone": "north"},
                                "size": [12, 6],
                            },
                            {"kind": "gauge", "metric": "kiln_fuel", "labels": {}, "size": [4, 3]},
                        ],
                    },
                    '{"dashboard": 88}',
                ),
            ),
        ),
    ),
)

ARITHMETIC = ToolCase(
    "12 arithmetic",
    "A product that is left to the tool.",
    (WEATHER, CALCULATE),
    (
        Invocation(
            "Have the tool multiply 48271 by 9173. Reply with only the product, in digits without separators.",
            calls=(
                Expect(
                    "calculate",
                    {"a": 48271, "operation": "multiply", "b": 9173},
                    '{"result": 442789883}',
                    variants=({"a": 9173, "operation": "multiply", "b": 48271},),
                ),
            ),
        ),
        Invocation(None, literal="442789883", says=(r"\b442[ ,.']?789[ ,.']?883\b",)),
    ),
)

AGENTS = ToolCase(
    "13 sub-agents",
    "Two agents are started in one reply, and what they found is put together.",
    (
        tool(
            "run_agent",
            "Run an agent on a file to its end. Agents do not know of each other and can run at once.",
            {"role": choice("reader", "auditor", "writer"), "file": text("Name of the file")},
        ),
    ),
    (
        Invocation(
            "Run a reader on ledger.csv and an auditor on rules.md, both calls in the same reply. Then reply "
            "with only the number of findings of both together.",
            calls=(
                Expect("run_agent", {"role": "reader", "file": "ledger.csv"}, '{"agent": 1, "findings": 4}'),
                Expect("run_agent", {"role": "auditor", "file": "rules.md"}, '{"agent": 2, "findings": 9}'),
            ),
        ),
        Invocation(None, literal="13", says=(r"\b(13|thirteen)\b",)),
    ),
)

_PAGE = tool("read_page", "Read a page of the log book.", {"page": {"type": "integer", "minimum": 1}})
_TICKET = tool(
    "open_ticket",
    "Open a ticket for a repair.",
    {"pump": text("Name of the pump"), "code": text("Its maintenance code")},
)


def _page(page: int, line: str) -> str:
    return f"Page {page} of the log book.\n\n{{filler}}\n\n{line}\n\n{{filler}}"


LONG = ToolCase(
    "14 long context",
    "What a tool said long ago is needed now.",
    (_PAGE, _TICKET),
    (
        Invocation(
            "The pump whose seal leaks needs a ticket. All pages have been read, so open it now.",
            calls=(
                Expect(
                    "open_ticket",
                    {"pump": "Alder", "code": "KX-4471-Q"},
                    '{"ticket": 9}',
                    patterns={"pump": r"(pump )?alder"},
                ),
            ),
        ),
    ),
    history=(
        user_message(
            "Read pages 1 to 3 of the log book and wait for what I want then. Reply with only: read"
        ),
        *called("read_page", {"page": 1}, _page(1, "Pump Birch, code KX-4417-Q: seal sound."), "call_p1"),
        *called("read_page", {"page": 2}, _page(2, "Pump Alder, code KX-4471-Q: seal leaks."), "call_p2"),
        *called("read_page", {"page": 3}, _page(3, "Pump Cedar, code KX-7441-O: seal sound."), "call_p3"),
        {"role": "assistant", "content": "read"},
    ),
)

_DAYS = {
    "type": "array",
    "items": choice("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
    "uniqueItems": True,
}
_ALARM = tool(
    "set_alarm",
    "Set an alarm that comes every week.",
    {"label": text("Its name"), "time": text("As 18:05"), "days": _DAYS},
)


def _alarm(letter: str, label: str, words: str, time: str, days: list[str]) -> ToolCase:
    return ToolCase(
        f"15{letter} concurrent",
        "Three conversations at once, alike but for what is asked.",
        (_ALARM,),
        (
            Invocation(
                f"Set an alarm with the label {label} for {words}. List the days from Monday on.",
                calls=(
                    Expect(
                        "set_alarm",
                        {"label": label, "time": time, "days": days},
                        '{"ok": true}',
                        patterns={"time": f"{time}(:00)?"},
                    ),
                ),
            ),
        ),
        together=True,
    )


CONCURRENT = (
    _alarm("a", "kettle", "6:15 in the morning on Mondays and Wednesdays", "06:15", ["mon", "wed"]),
    _alarm("b", "choir", "5:40 in the afternoon on Tuesdays and Fridays", "17:40", ["tue", "fri"]),
    _alarm("c", "bins", "9:55 in the evening on Thursdays and Sundays", "21:55", ["thu", "sun"]),
)

BRIDGE = ToolCase(
    "16 deferred bridge",
    "The tool that is needed becomes known only through another one.",
    (
        tool(
            "find_tools",
            "Search a catalogue of further tools. Answers with their names and schemas.",
            {"query": text("Words to search for")},
        ),
        tool(
            "run_tool",
            "Run a tool of the catalogue.",
            {
                "name": text("Its name"),
                "arguments": {"type": "object", "description": "As its schema has them"},
            },
        ),
    ),
    (
        Invocation(
            "How far is it from Linz to Graz on the road, in kilometres? Find a tool for it in the catalogue "
            "with the query: road distance. Then run it.",
            calls=(
                Expect(
                    "find_tools",
                    {"query": "road distance"},
                    '{"tools": [{"name": "route_length", "description": "Length of the way between two '
                    'towns.", "schema": {"type": "object", "properties": {"start": {"type": "string"}, '
                    '"goal": {"type": "string"}, "way": {"enum": ["road", "rail"]}, "unit": {"enum": ["km", '
                    '"mi"]}}, "required": ["start", "goal", "way", "unit"], "additionalProperties": false}}]}',
                ),
            ),
        ),
        Invocation(
            None,
            calls=(
                Expect(
                    "run_tool",
                    {
                        "name": "route_length",
                        "arguments": {"start": "Linz", "goal": "Graz", "way": "road", "unit": "km"},
                    },
                    '{"length": 221, "unit": "km"}',
                ),
            ),
        ),
    ),
)

CASES = (NESTED, ARITHMETIC, AGENTS, LONG, *CONCURRENT, BRIDGE)
