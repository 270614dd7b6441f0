"""Image and video scenarios: pictures drawn from a seed, questions whose answers follow from how they were drawn.

`scenarios` needs Pillow, and PyAV for the videos; it is imported only when they are drawn.
"""

from penny_bench.cases.media.judge import answer_checks, read_json
from penny_bench.cases.media.model import (
    NAMES,
    Call,
    Message,
    Question,
    Scenario,
    picture_part,
    text_part,
    video_part,
)

__all__ = [
    "NAMES",
    "Call",
    "Message",
    "Question",
    "Scenario",
    "answer_checks",
    "picture_part",
    "read_json",
    "text_part",
    "video_part",
]
