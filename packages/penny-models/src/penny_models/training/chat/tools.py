"""Tool calls with made-up tools, and plain JSON answers."""

import json
import random
from collections.abc import Iterator
from typing import Any

from penny_models.training.chat.base import Dialogue, Message, assistant, user

_CITIES = (
    "Paris",
    "Berlin",
    "Tokyo",
    "Oslo",
    "Madrid",
    "Rome",
    "Lima",
    "Cairo",
    "Delhi",
    "Boston",
    "London",
    "Prague",
)
_NAMES = ("Ada", "Alan", "Grace", "Linus", "Guido", "Barbara", "Edsger", "Donald", "Radia", "Ken")
_WEATHER = ("sunny", "rain", "cloudy", "snow", "windy", "fog")
_WORDS = ("parser", "queue", "socket", "thread", "tensor", "branch", "cache", "token", "string", "module")


def _tool(name: str, description: str, **properties: str) -> dict[str, Any]:
    fields = {key: {"type": kind} for key, kind in properties.items()}
    schema = {"type": "object", "properties": fields, "required": list(properties)}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": schema},
    }


WEATHER = _tool("get_weather", "Return the weather of a city.", city="string")
ADD = _tool("add", "Add two numbers.", a="integer", b="integer")
SEARCH = _tool("search", "Search the documentation.", query="string")
CLOCK = _tool("get_time", "Return the time in a city.", city="string")


def _call(name: str, arguments: dict[str, Any], thought: str) -> Message:
    calls = [{"type": "function", "function": {"name": name, "arguments": arguments}}]
    return {**assistant("", thought), "tool_calls": calls}


def _scene(rng: random.Random) -> tuple[dict[str, Any], str, dict[str, Any], str, str]:
    """Return a tool, a question, the arguments, the tool's result and the final answer."""
    city, word = rng.choice(_CITIES), rng.choice(_WORDS)
    kind = rng.randrange(4)
    if kind == 0:
        sky, degrees = rng.choice(_WEATHER), rng.randint(-9, 35)
        question = rng.choice(
            ("What is the weather in {}?", "How is the weather in {}?", "Is it warm in {}?")
        )
        result = json.dumps({"sky": sky, "degrees": degrees})
        return WEATHER, question.format(city), {"city": city}, result, f"{city}: {sky}, {degrees} degrees."
    if kind == 1:
        a, b = rng.randint(100, 999), rng.randint(100, 999)
        question = rng.choice(("Add {} and {}.", "What is {} plus {}?", "Use the tool to add {} and {}."))
        return ADD, question.format(a, b), {"a": a, "b": b}, str(a + b), f"{a} + {b} = {a + b}"
    if kind == 2:
        question = rng.choice(("Search for {}.", "Find the documentation of {}.", "Look up {}."))
        count = rng.randint(1, 9)
        return (
            SEARCH,
            question.format(word),
            {"query": word},
            f"{count} pages",
            f"There are {count} pages on {word}.",
        )
    time = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}"
    question = rng.choice(("What time is it in {}?", "Tell me the time in {}.", "How late is it in {}?"))
    return CLOCK, question.format(city), {"city": city}, time, f"It is {time} in {city}."


def tool_dialogues(rng: random.Random, count: int) -> Iterator[Dialogue]:
    """Yield ``count`` conversations with one tool call; half of them go on to the answer."""
    for index in range(count):
        tool, question, arguments, result, answer = _scene(rng)
        others = [t for t in (WEATHER, ADD, SEARCH, CLOCK) if t is not tool]
        offered = [tool, *rng.sample(others, rng.randrange(3))]
        rng.shuffle(offered)
        name = tool["function"]["name"]
        thought = rng.choice(("", f"I call {name}."))
        messages = [user(question), _call(name, arguments, thought)]
        if rng.random() < 0.6:
            messages += [{"role": "tool", "content": result}, assistant(answer)]
        yield Dialogue(f"tools/{index}", tuple(messages), tuple(offered))


def json_dialogues(rng: random.Random, count: int) -> Iterator[Dialogue]:
    """Yield ``count`` conversations that ask for a JSON object and get one."""
    for _ in range(count):
        name, age, city = rng.choice(_NAMES), rng.randint(1, 99), rng.choice(_CITIES)
        value: dict[str, Any] = {"name": name, "age": age, "city": city}
        keys = rng.sample(sorted(value), rng.randint(1, 3))
        value = {key: value[key] for key in keys}
        facts = " and ".join(f"{key} {value[key]}" for key in keys)
        asked = rng.choice(("Give me a JSON object with {}.", "Write JSON with {}.", "As JSON: {}."))
        text = json.dumps(value, indent=rng.choice((None, 2)))
        yield Dialogue(f"json/{facts}", (user(asked.format(facts)), assistant(text)))
