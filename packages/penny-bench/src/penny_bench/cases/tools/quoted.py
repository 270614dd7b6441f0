"""Ten cases in which the text to write or to say holds the markup of the protocol itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penny_bench.cases.tools.model import Expect, Invocation, ToolCase, text, tool

WRITE = tool(
    "write_file", "Write a file, anew.", {"path": text("Its path"), "content": text("All that is in it")}
)
EDIT = tool(
    "edit_file",
    "Replace a passage of a file.",
    {"path": text("Its path"), "old": text("The passage, to the byte"), "new": text("What takes its place")},
)

_EXACTLY = "Pass every character as it is, with its blanks, and end at the last character of the last line."


def _loose(value: str) -> str:
    """Matches the text, with or without a line break behind it, and nothing else."""
    return f"(?-i:{re.escape(value)}\\n?)"


def _write(path: str, content: str) -> Expect:
    return Expect(
        "write_file", {"path": path, "content": content}, '{"ok": true}', {"content": _loose(content)}
    )


def _file(name: str, theme: str, path: str, content: str) -> ToolCase:
    words = (
        f"Write the file {path}. Its content is what stands between the two lines of equals signs. {_EXACTLY}"
    )
    return ToolCase(
        name,
        theme,
        (WRITE, EDIT),
        (Invocation(f"{words}\n\n=====\n{content}\n=====", calls=(_write(path, content),)),),
        quotes=True,
    )


def _said(name: str, theme: str, words: str, answer: str) -> ToolCase:
    return ToolCase(
        name,
        theme,
        (WRITE, EDIT),
        (Invocation(f"{words}\n\n{answer}", literal=answer, says=(_loose(answer),)),),
        quotes=True,
    )


_CALL = "<tool_call>\n<function=list_files>\n<parameter=path>\n/srv\n</parameter>\n</function>\n</tool_call>"

_OLD = "    open_tag = '<tool_call>'\n    shut_tag = ''"
_NEW = "    open_tag = '<tool_call>'\n\tshut_tag = '</tool_call>'"

_EDITED: Mapping[str, str] = {"path": "parse.py", "old": _OLD, "new": _NEW}

QUOTED = (
    _file(
        "q01 closing parameter",
        "A closing tag of a parameter in a sentence does not close the argument.",
        "notes/tags.md",
        "A value ends at </parameter> and the next one may begin.\nThat is all.",
    ),
    _file(
        "q02 closing call",
        "Closing tags of the function and the call in one line.",
        "notes/ends.txt",
        "Order of the ends: </parameter>, then </function>, then </tool_call>, and no other.",
    ),
    _file(
        "q03 whole call",
        "A whole call in a fence, in a file.",
        "docs/example.md",
        f"# A call\n\n```xml\n{_CALL}\n```\n\nThe fence above is an example.",
    ),
    _file(
        "q04 nested pair",
        "A pair of parameter tags in a value makes no new argument.",
        "docs/form.txt",
        "Fill in <parameter=city>Tartu</parameter> by hand; <parameter=path>x</parameter> stays.",
    ),
    _file(
        "q05 thinking tags",
        "Tags of thinking in a template that is to be written.",
        "chat.jinja",
        "{{ '<think>\\n' + thought + '\\n</think>\\n\\n' }}\n<think>\nnot a thought\n</think>\n{{ answer }}",
    ),
    ToolCase(
        "q06 edit",
        "Indentation by blanks and by a tab, and tags in both passages of an edit.",
        (WRITE, EDIT),
        (
            Invocation(
                "In the file parse.py, replace the passage that stands first between lines of equals signs by the "
                f"one that stands second. {_EXACTLY} The second line of the new passage begins with a "
                f"tab.\n\n=====\n{_OLD}\n=====\n{_NEW}\n=====",
                calls=(
                    Expect(
                        "edit_file",
                        _EDITED,
                        '{"ok": true}',
                        {key: _loose(_EDITED[key]) for key in ("old", "new")},
                    ),
                ),
            ),
        ),
        quotes=True,
    ),
    ToolCase(
        "q07 two calls",
        "A lone fence and an opening tag in the first of two calls do not swallow the second.",
        (WRITE, EDIT),
        (
            Invocation(
                "Write two files, both calls in the same reply. The file a.md holds the three lines between "
                "the first two lines of equals signs, and the file b.md the one line between the next two. "
                f"{_EXACTLY}\n\n=====\n```\n<function=write_file>\nopen\n=====\n<tool_call> is only a word here\n=====",
                calls=(
                    _write("a.md", "```\n<function=write_file>\nopen"),
                    _write("b.md", "<tool_call> is only a word here"),
                ),
            ),
        ),
        quotes=True,
    ),
    _said(
        "q08 fenced answer",
        "An example of a call in a fence of the answer is no call.",
        "Don't call anything. Reply with exactly these lines, the fence included:",
        f"```xml\n{_CALL}\n```",
    ),
    _said(
        "q09 inline answer",
        "Tags in inline code of an answer are no protocol.",
        "Don't call anything. Reply with exactly this line:",
        "Write `<tool_call>` to open a call, `<function=NAME>` to name it and `</tool_call>` to close it.",
    ),
    _said(
        "q10 thinking",
        "The model is made to think of the tags, and says one after its thought.",
        "Don't call anything. First think over which of the tags <think>, <tool_call> and "
        "<function=list_files> come before one another in a reply that thinks and then calls. Whatever you "
        "find, reply with exactly this line:",
        "The tag </think> ends a thought, and </thinking> does not.",
    ),
)
