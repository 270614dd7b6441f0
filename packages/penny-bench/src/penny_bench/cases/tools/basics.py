"""Cases 01 to 05: whether, what, with what and in which order to call."""

from penny_bench.cases.tools.model import Expect, Invocation, ToolCase, choice, number, text, tool

WEATHER = tool(
    "get_weather",
    "The weather in a city at this moment.",
    {"city": text("Name of the city"), "unit": choice("celsius", "fahrenheit")},
)
CALCULATE = tool(
    "calculate",
    "One step of exact arithmetic: a, the operation, b.",
    {
        "a": number("Left number"),
        "operation": choice("add", "subtract", "multiply"),
        "b": number("Right number"),
    },
)

NO_TOOL = ToolCase(
    "01 no tool",
    "Tools are at hand, but none has to do with the question.",
    (WEATHER, CALCULATE),
    (
        Invocation(
            "Which planet of our solar system has the next orbit outside that of Mars? Reply with its name only.",
            literal="Jupiter",
            says=(r"\bjupiter\b",),
        ),
    ),
)

LOOK_UP = ToolCase(
    "02 weather",
    "One call, then an answer from its result.",
    (WEATHER, CALCULATE),
    (
        Invocation(
            "How cold is it in Tromsø right now, in celsius? Reply with only the temperature as a whole "
            "number and the letter of the unit, in the form of: 7 C",
            calls=(
                Expect(
                    "get_weather",
                    {"city": "Tromsø", "unit": "celsius"},
                    '{"city": "Tromsø", "temperature": -6, "unit": "celsius", "sky": "light snow"}',
                    patterns={"city": r"troms(ø|o|oe)(, ?(norway|norge|no))?"},
                ),
            ),
        ),
        Invocation(None, literal="-6 C", says=(r"([-\u2212\u2013]|minus )\s?6\b",)),
    ),
)

_CHANNEL = text("Name of the channel, without a sign before it")
_UNTIL = text("Time in UTC, in the form 2030-01-31T15:00:00Z")
_PERSON = text("Login of the person")

SELECTION = ToolCase(
    "03 selection",
    "One of twenty tools fits; several are near it.",
    (
        tool("channel_archive", "Close a channel for good.", {"channel": _CHANNEL}),
        tool("channel_create", "Open a new channel.", {"channel": _CHANNEL, "private": {"type": "boolean"}}),
        tool("channel_leave", "Leave a channel.", {"channel": _CHANNEL}),
        tool(
            "channel_mute",
            "Silence the messages of a channel for me.",
            {"channel": _CHANNEL, "until": _UNTIL},
        ),
        tool("channel_rename", "Rename a channel.", {"channel": _CHANNEL, "name": text("New name")}),
        tool("channel_unmute", "Hear a channel again.", {"channel": _CHANNEL}),
        tool(
            "channel_watch", "Be told of each message of a channel.", {"channel": _CHANNEL, "until": _UNTIL}
        ),
        tool("person_block", "Hear nothing from a person ever again.", {"person": _PERSON}),
        tool("person_mute", "Silence the messages of one person.", {"person": _PERSON, "until": _UNTIL}),
        tool("person_invite", "Invite a person to a channel.", {"person": _PERSON, "channel": _CHANNEL}),
        tool("status_set", "Set my status line.", {"status": text("The line"), "until": _UNTIL}),
        tool("status_clear", "Clear my status line.", {}),
        tool("quiet_hours", "Silence everything until a time.", {"until": _UNTIL}),
        tool("reminder_set", "Be reminded at a time.", {"about": text("Of what"), "at": _UNTIL}),
        tool("reminder_list", "All reminders.", {}),
        tool("message_send", "Write to a channel.", {"channel": _CHANNEL, "words": text("The message")}),
        tool("message_pin", "Pin a message.", {"channel": _CHANNEL, "message": number("Its number")}),
        tool("message_search", "Search messages.", {"words": text("To search for")}),
        tool("file_share", "Share a file in a channel.", {"channel": _CHANNEL, "file": text("Its name")}),
        tool("file_list", "Files of a channel.", {"channel": _CHANNEL}),
    ),
    (
        Invocation(
            "I don't want to be disturbed by what is written in the channel ops-night until the morning of 4 "
            "May 2031, 7 o'clock UTC. I stay a member, and everything else shall still reach me.",
            calls=(
                Expect(
                    "channel_mute",
                    {"channel": "ops-night", "until": "2031-05-04T07:00:00Z"},
                    '{"ok": true}',
                    patterns={
                        "channel": "#?ops-night",
                        "until": r"2031-05-04[T ]07:00(:00(\.0+)?)?(Z|\+00:?00)",
                    },
                ),
            ),
        ),
    ),
)

CLARIFY = ToolCase(
    "04 clarify",
    "A required argument is missing: ask for it, and call only when it is known.",
    (
        tool(
            "book_table",
            "Book a table in a restaurant. Bookings are binding.",
            {
                "restaurant": text("Its name"),
                "date": text("Day, as 2030-01-31"),
                "time": text("Time of the day, as 18:05"),
                "guests": number("How many people"),
            },
        ),
    ),
    (
        Invocation(
            "Please book a table for four people at Salt & Reed on 14 June 2031. If you miss anything that "
            "the tool needs, don't guess it: reply with only the word MISSING, a colon, and the name of the argument.",
            literal="MISSING: time",
            says=(r"\btime\b|what hour|o'clock|\bwhen\b",),
            never=(r"\b(is|have|i've|has been) (now )?booked\b",),
        ),
        Invocation(
            "Half past seven in the evening.",
            calls=(
                Expect(
                    "book_table",
                    {"restaurant": "Salt & Reed", "date": "2031-06-14", "time": "19:30", "guests": 4},
                    '{"booked": true}',
                    patterns={"restaurant": r"salt (&|and|&amp;) reed", "time": r"19:30(:00)?"},
                ),
            ),
        ),
    ),
)

_BRANCH = text("Name of the branch")

ORDER = ToolCase(
    "05 order",
    "Two changes that are safe only one after the other.",
    (
        tool("delete_branch", "Delete a branch. It cannot be brought back.", {"branch": _BRANCH}),
        tool("list_branches", "Names of all branches.", {}),
        tool("rename_branch", "Rename a branch.", {"branch": _BRANCH, "name": text("New name")}),
    ),
    (
        Invocation(
            "Delete the branch old-7, but not before the branch draft-7 has been renamed to release-7 and "
            "you have seen that this worked. Make one call at a time and look nothing else up. When all is "
            "done, reply with only the word: done",
            calls=(Expect("rename_branch", {"branch": "draft-7", "name": "release-7"}, '{"ok": true}'),),
        ),
        Invocation(None, calls=(Expect("delete_branch", {"branch": "old-7"}, '{"ok": true}'),)),
        Invocation(
            None, literal="done", says=(r"\bdone\b|\bdeleted\b",), never=(r"\b(fail|could not|not yet)",)
        ),
    ),
)

CASES = (NO_TOOL, LOOK_UP, SELECTION, CLARIFY, ORDER)
