"""The trace memory: a mapping shared with the supervisor, its areas and the framing of records.

The layout is in docs/trace-format.md. A record counts only once the area's commit counter in the
header covers it, so a reader never sees half a record whatever ends the program.
"""

from __future__ import annotations

from . import _recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MAGIC = b"TFTRACE1"
HEADER_BYTES = 4096
EVENTS, DEFS, COUNTERS, END, RING, NOTES = range(6)
AREAS = 6
FORMAT = 1
"""Record format of definitions and of the end: JSON payloads."""

# The counters with a fixed meaning; all others are given out from FIRST_FREE on.
VERSION, FLAGS, MAX_DEPTH, RAISED, OTHER, STDOUT, STDERR = range(7)
STOPPED, SHORTENED, LOST, UNKNOWN, THREADS, NOWHERE = range(7, 13)
FIRST_FREE = 16

# Bits of the counter FLAGS.
INEXACT, DETACHED, FORKED, INPUT_ENDED, HIT_FILES, HIT_DISK, HIT_INODES, HIT_FILE_SIZE, INTERPRETERS = (1 << bit for bit in range(9))

# Values of the counter STOPPED: why the event area took no more.
BY_EVENTS, BY_BYTES, BY_TIME = 1, 2, 3


class Memory:
    """The mapping and its areas. The descriptor may be closed once this exists."""

    def __init__(self, fd: int, size: int, areas: list[tuple[int, int]]) -> None:
        """Map the memory; ``areas`` are (offset, capacity) pairs. Raises ``OSError`` or ``ValueError``."""
        if len(areas) != AREAS or any(o < HEADER_BYTES or c < 0 or o + c > size for o, c in areas):
            raise ValueError("the areas do not fit the trace memory")
        self.map = _recorder.map(fd, size)
        view = memoryview(self.map)
        self.committed = view[len(MAGIC) : HEADER_BYTES].cast("Q")
        offset, capacity = areas[COUNTERS]
        self.counters = view[offset : offset + (capacity & ~7)].cast("Q")
        self.areas = areas
        self.map[: len(MAGIC)] = MAGIC
        self.counters[VERSION] = FORMAT
        self.committed[COUNTERS] = FIRST_FREE * 8

    def writer(self, area: int, reserve: int = 0) -> Callable[[str], bool]:
        """Return a function that appends one record to an area.

        It takes the payload as ASCII text and says whether it fitted; ``reserve`` bytes at the end
        of the area stay free for ``reopen``. Records of several threads do not mix: between
        reading the position and moving it there is no place where CPython switches threads.
        """
        memory, committed = self.map, self.committed
        offset, capacity = self.areas[area]
        limit = capacity - reserve
        if limit > 0 and committed[area] == 0:
            memory[offset] = FORMAT
            committed[area] = 1

        def append(payload: str) -> bool:
            data = payload.encode("ascii")
            size = len(data)
            record = size.to_bytes(4, "little") + data
            size += 4
            at = committed[area]
            end = at + size
            if end > limit:
                return False
            start = offset + at
            memory[start : start + size] = record
            committed[area] = end
            return True

        return append


class Slots:
    """Gives out counters."""

    def __init__(self, memory: Memory) -> None:
        """Start after the counters with a fixed meaning."""
        self._committed = memory.committed
        self._capacity = len(memory.counters)
        self._next = FIRST_FREE

    def take(self, count: int) -> int:
        """Return the first of ``count`` neighbouring counters, or 0 when there are not so many left."""
        first = self._next
        if first + count > self._capacity:
            return 0
        self._next = first + count
        self._committed[COUNTERS] = self._next * 8
        return first
