"""Counts what the program writes to stdout and stderr, so that events can tell where output belongs."""

from __future__ import annotations

import sys

from .memory import STDERR, STDOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def count(counters: memoryview[int]) -> Callable[[], None]:
    """Count the bytes that leave through ``sys.stdout`` and ``sys.stderr`` from now on.

    The streams stay the interpreter's own objects: only their raw files get a ``write`` of ours in
    front of theirs. What goes to the descriptor in another way is not counted. The outcome is a
    function that stops counting.
    """
    buffers: tuple[Any, Any] = (sys.stdout.buffer, sys.stderr.buffer)
    files = [(buffers[0].raw, STDOUT), (buffers[1].raw, STDERR)]
    for file, slot in files:
        file.write = _counting(file.write, counters, slot)

    def stop() -> None:
        for file, _ in files:
            vars(file).pop("write", None)

    return stop


def _counting(write: Callable[[Any], Any], counters: memoryview[int], slot: int) -> Callable[[Any], Any]:
    def counting(data: Any) -> Any:
        written = write(data)
        if written is not None:
            counters[slot] += written
        return written

    return counting
