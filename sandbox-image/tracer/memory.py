"""The trace memory: a mapping shared with the supervisor, its areas and the framing of records.

The layout is in docs/trace-format.md. A record counts only once the area's commit counter in the
header covers it, so a reader never sees half a record whatever ends the program.
"""

from __future__ import annotations

from mmap import mmap

MAGIC = b"TFTRACE1"
HEADER_BYTES = 4096
EVENTS, DEFS, COUNTERS, END = range(4)
LENGTH_BYTES = 4
FORMAT = 1
"""Record format: JSON payloads. Another recorder takes another number."""


class Memory:
    """The mapping and its four areas. The descriptor may be closed once this exists."""

    def __init__(self, fd: int, size: int, areas: list[tuple[int, int]]) -> None:
        """Map the memory; ``areas`` are (offset, capacity) pairs. Raises ``OSError`` or ``ValueError``."""
        if len(areas) != 4 or any(o < HEADER_BYTES or c < 0 or o + c > size for o, c in areas):
            raise ValueError("the areas do not fit the trace memory")
        self.map = mmap(fd, size, trackfd=False)
        view = memoryview(self.map)
        self.committed = view[len(MAGIC) : HEADER_BYTES].cast("Q")
        offset, capacity = areas[COUNTERS]
        self.counters = view[offset : offset + (capacity & ~7)].cast("Q")
        self.areas = areas
        self.map[: len(MAGIC)] = MAGIC
