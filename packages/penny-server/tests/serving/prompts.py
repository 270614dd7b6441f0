"""Twenty prompts of different kinds and lengths. Written for these tests."""

from __future__ import annotations

CODE = [
    "def fibonacci(n):\n",
    "import os\nimport sys\n\n\nclass Reader:\n    def __init__(self, path):\n        self.path = path\n",
    "for i in range(10):\n    print(",
    "try:\n    value = int(text)\nexcept ValueError:\n",
    "    @property\n    def name(self) -> str:\n        return self._",
    "SELECT name, count(*) FROM birds WHERE",
    '{"name": "heron", "wings": 2, "colour": ',
    "x = [",
]
PROSE = [
    "The ferry left the harbour before sunrise, and",
    "Returns a list of",
    "If the file does not exist, an exception is raised. Otherwise",
    "1, 2, 3, 4, 5, 6,",
    "Ein kurzer Satz mit Umlauten: Größe, Übung, Äpfel.",
    "Привет, мир. 你好,世界。 ",
    "!!??\t\t  \n\n \n--==~~",
    "a",
]
LONG = [
    "The module keeps a table of open files. " * 12,
    "def add(a, b):\n    return a + b\n\n\n" * 25,
    "".join(f"line {i}: value {i * i % 97}\n" for i in range(60)),
    "".join(f"def f{i}(x):\n    return x * {i} + {i * 3 % 11}\n\n" for i in range(45)),
]
ALL = CODE + PROSE + LONG
