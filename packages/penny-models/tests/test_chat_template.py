"""The chat template against texts written by hand in the family's form."""

from typing import Any

import pytest
from jinja2 import TemplateError
from transformers import AutoTokenizer

from penny_models import tiny
from penny_models.training.tokenizer import chat_template

Messages = list[dict[str, Any]]

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Wetter für eine Stadt",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
TOOLS_TEXT = """\
# Tools

The functions that can be called:

<tools>
{"type": "function", "function": {"name": "get_weather", "description": "Wetter für eine Stadt", \
"parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}
</tools>

A call is written in this form and ends the answer:

<tool_call>
<function=NAME>
<parameter=KEY>
value
</parameter>
</function>
</tool_call>"""


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(tiny.path("tiny-27b"))


@pytest.fixture(scope="module")
def render(tokenizer: Any) -> Any:
    def rendered(messages: Messages, **options: Any) -> str:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, **options))

    return rendered


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def test_the_shipped_template_is_the_one_trained_with(tokenizer: Any) -> None:
    assert tokenizer.chat_template == chat_template()


def test_thinking_on_is_the_default(render: Any) -> None:
    expected = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n"
    assert render([user("Hi")], add_generation_prompt=True) == expected
    assert render([user(" Hi\n")], add_generation_prompt=True, enable_thinking=True) == expected


def test_thinking_off(render: Any) -> None:
    assert render([user("Hi")], add_generation_prompt=True, enable_thinking=False) == (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )


@pytest.mark.parametrize("role", ["system", "developer"])
def test_system_and_a_finished_answer(render: Any, role: str) -> None:
    messages = [{"role": role, "content": "Answer briefly. "}, user("1 + 1?"), assistant("2")]
    assert render(messages) == (
        "<|im_start|>system\nAnswer briefly.<|im_end|>\n"
        "<|im_start|>user\n1 + 1?<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n2<|im_end|>\n"
    )


def test_thoughts_stay_only_after_the_last_question(render: Any) -> None:
    messages = [
        user("A?"),
        assistant("B.", reasoning_content="first"),
        user("C?"),
        assistant("D.", reasoning_content="second"),
    ]
    assert render(messages) == (
        "<|im_start|>user\nA?<|im_end|>\n"
        "<|im_start|>assistant\nB.<|im_end|>\n"
        "<|im_start|>user\nC?<|im_end|>\n"
        "<|im_start|>assistant\n<think>\nsecond\n</think>\n\nD.<|im_end|>\n"
    )


def test_thoughts_inside_the_content(render: Any) -> None:
    messages = [user("A?"), assistant("<think>\nx\n</think>\n\nB."), user("C?")]
    assert render(messages, add_generation_prompt=True) == (
        "<|im_start|>user\nA?<|im_end|>\n<|im_start|>assistant\nB.<|im_end|>\n"
        "<|im_start|>user\nC?<|im_end|>\n<|im_start|>assistant\n<think>\n"
    )
    assert render(messages[:2]) == (
        "<|im_start|>user\nA?<|im_end|>\n<|im_start|>assistant\n<think>\nx\n</think>\n\nB.<|im_end|>\n"
    )


def test_tools_come_before_the_system_text(render: Any) -> None:
    question = "<|im_start|>user\nOslo?<|im_end|>\n"
    assert render([user("Oslo?")], tools=[WEATHER]) == (
        f"<|im_start|>system\n{TOOLS_TEXT}<|im_end|>\n{question}"
    )
    messages = [{"role": "system", "content": "Be kind."}, user("Oslo?")]
    assert render(messages, tools=[WEATHER]) == (
        f"<|im_start|>system\n{TOOLS_TEXT}\n\nBe kind.<|im_end|>\n{question}"
    )


def test_tool_calls_and_results(render: Any) -> None:
    messages = [
        user("Oslo and Rome?"),
        assistant(
            "I look.",
            reasoning_content="two calls",
            tool_calls=[
                call("get_weather", {"city": "Oslo", "days": 2, "units": ["C", "°"]}),
                call("get_weather", {"city": "Rome"}),
            ],
        ),
        {"role": "tool", "content": "snow"},
        {"role": "tool", "content": '{"sky": "sunny"}'},
        assistant("Snow, and sun."),
    ]
    assert render(messages) == (
        "<|im_start|>user\nOslo and Rome?<|im_end|>\n"
        "<|im_start|>assistant\n<think>\ntwo calls\n</think>\n\nI look.\n\n"
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n"
        '<parameter=days>\n2\n</parameter>\n<parameter=units>\n["C", "°"]\n</parameter>\n'
        "</function>\n</tool_call>\n"
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call>"
        "<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nsnow\n</tool_response>\n"
        '<tool_response>\n{"sky": "sunny"}\n</tool_response><|im_end|>\n'
        "<|im_start|>assistant\n<think>\n\n</think>\n\nSnow, and sun.<|im_end|>\n"
    )


def test_a_call_without_text_or_arguments(render: Any) -> None:
    messages = [user("Go."), assistant(None, tool_calls=[{"name": "now", "arguments": {}}])]
    assert render(messages) == (
        "<|im_start|>user\nGo.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
        "<tool_call>\n<function=now>\n</function>\n</tool_call><|im_end|>\n"
    )


def test_content_in_parts(render: Any) -> None:
    parts = [
        {"type": "text", "text": "What is "},
        {"type": "image"},
        {"type": "video"},
        {"type": "text", "text": "?"},
    ]
    assert render([user(parts)]) == (
        "<|im_start|>user\nWhat is <|vision_start|><|image_pad|><|vision_end|>"
        "<|vision_start|><|video_pad|><|vision_end|>?<|im_end|>\n"
    )


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([], "at least one message"),
        ([user("a"), {"role": "system", "content": "b"}], "must be the first message"),
        ([{"role": "wizard", "content": "b"}], "Unknown role: wizard"),
        ([user("a"), assistant("", tool_calls=[call("f", '{"a": 1}')])], "must be an object, not text"),
    ],
)
def test_bad_conversations_are_refused(tokenizer: Any, messages: Messages, said: str) -> None:
    template = tokenizer.chat_template
    with pytest.raises(TemplateError, match=said):
        tokenizer.apply_chat_template([messages], chat_template=template, tokenize=False)


def test_markers_become_single_ids(tokenizer: Any) -> None:
    encoded = tokenizer.apply_chat_template([user("Hi")], add_generation_prompt=True, return_dict=True)
    ids = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>", "<think>"])
    found = [token for token in encoded["input_ids"] if token in ids]
    assert found == [ids[0], ids[1], ids[0], ids[2]]
