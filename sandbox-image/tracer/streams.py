"""Counts what the program writes to stdout and stderr, so that events can tell where output belongs."""

from __future__ import annotations

import sys

from .memory import STDERR, STDOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def count(counters: memoryview[int]) -> None:
    """Count the bytes that leave through ``sys.stdout`` and ``sys.stderr`` from now on.

    The streams stay the interpreter's own objects: only their raw files get a ``write`` of ours in
    front of theirs. What goes to the descriptor in another way is not counted.
    """
    for stream, slot in ((sys.stdout, STDOUT), (sys.stderr, STDERR)):
        raw = stream.buffer.raw  # type: ignore[attr-defined]
        raw.write = _counting(raw.write, counters, slot)


def _counting(write: Any, counters: memoryview[int], slot: int) -> Any:
    def counting(data: Any) -> Any:
        written = write(data)
        if written is not None:
            counters[slot] += written
        return written

    return counting
