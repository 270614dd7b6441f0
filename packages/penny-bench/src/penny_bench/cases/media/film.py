"""Videos: MP4 from pictures, with PyAV."""

from __future__ import annotations

import io
from collections.abc import Iterable
from fractions import Fraction

import av
import numpy as np
from PIL import Image

ENCODING = {"preset": "ultrafast", "qp": "18", "threads": "1"}
"""With these options of x264 the same pictures are the same bytes also from another thread; with its usual ones not."""
RATE = 8
"""Pictures a second."""


def mp4(pictures: Iterable[Image.Image]) -> bytes:
    """Pictures of one even size, `RATE` a second, as MP4; the same for the same pictures and version of PyAV."""
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=RATE, options=ENCODING)
        stream.pix_fmt = "yuv420p"
        for number, picture in enumerate(pictures):
            if number == 0:
                stream.width, stream.height = picture.size
            frame = av.VideoFrame.from_ndarray(np.asarray(picture), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()
