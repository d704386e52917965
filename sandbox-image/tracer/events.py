"""The event area: one record per event, with what changed in its frame."""

from __future__ import annotations

import sys
from itertools import islice
from time import perf_counter_ns

from _json import encode_basestring_ascii as quote

from . import failure, raw
from .memory import BY_BYTES, BY_EVENTS, EVENTS, SHORTENED, STDERR, STDOUT, STOPPED
from .values import Encoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from .codes import Facts
    from .memory import Memory
    from .values import Found

CALL, LINE, RETURN, YIELD, RESUME, THROW, EXCEPTION, UNWIND = range(8)
MAX_VARIABLES = 100
MAX_OBJECTS = 48
"""Objects of the heap that one event looks at."""
MAX_MESSAGE = 200
OPTIMIZED = 0x1
"""Flag of code whose variables are not in a dictionary."""
LOCALS = type((lambda: sys._getframe().f_locals)())
"""The type of ``f_locals`` of a function's frame: a view that copies nothing."""


class Events:
    """Writes events until the budget of events or the area's bytes are used up."""

    def __init__(self, memory: Memory, budget: int, with_values: bool, closed: Callable[[], None]) -> None:
        """``budget`` is the number of events there is room for; ``closed`` is called when there is none left."""
        self.room = budget
        self._append = memory.writer(EVENTS)
        self._counters = memory.counters
        self._with_values = with_values
        self._closed = closed
        self._encoder = Encoder(memory.counters)
        # By the frame's id: its number, what was last said of its variables, its function, its last line.
        self.frames: dict[int, list[Any]] = {}
        self._last_frame = 0
        self._out = (0, 0)
        self._origin = 0
        if budget <= 0:
            self.close(BY_EVENTS)

    def close(self, cause: int) -> None:
        """Take no more events, and free what was kept for comparing."""
        self.room = 0
        self._counters[STOPPED] = cause
        self.frames.clear()
        self._encoder.clear()
        self._closed()

    def add(
        self, kind: int, facts: Facts, frame: FrameType, line: int | None, depth: int, thread: int,
        value: tuple[Any, ...], error: BaseException | None,
    ) -> bool:
        """Write one event and say whether there is room for another.

        ``line`` is 0 or None where the compiler added code of no line; the frame's last line holds then.
        ``value`` holds what a return or yield hands over, and nothing otherwise.
        """
        address = id(frame)
        kept = None if kind == CALL else self.frames.get(address)
        if kept is None or kept[2] != facts.number:
            self._last_frame += 1
            kept = self.frames[address] = [self._last_frame, {}, facts.number, facts.line]
        if kind == RETURN or kind == UNWIND:
            self.frames.pop(address, None)
        kept[3] = line = line or kept[3]
        extra: list[str] = []
        if self._with_values:
            self._add_values(extra, frame, kept[1], value)
        if error is not None and kind != UNWIND:
            words = failure.message(error)[:MAX_MESSAGE]
            extra.append(f'"x":[{quote(raw.full_name(type(error))[:MAX_MESSAGE])},{quote(words)}]')
        out = (self._counters[STDOUT], self._counters[STDERR])
        if out != self._out:
            self._out = out
            extra.append(f'"o":[{out[0]},{out[1]}]')
        now = perf_counter_ns()
        if not self._origin:
            self._origin = now
        time = (now - self._origin) // 1000
        record = f"[{kind},{facts.number},{kept[0]},{line},{depth},{thread},{time}"
        if not self._append(f"{record},{{{','.join(extra)}}}]" if extra else record + "]"):
            self.close(BY_BYTES)
            return False
        self.room -= 1
        if self.room <= 0:
            self.close(BY_EVENTS)
            return False
        return True

    def _add_values(
        self, extra: list[str], frame: FrameType, before: dict[str, str], value: tuple[Any, ...]
    ) -> None:
        """Append the changed variables, the value handed over, and the changed objects they lead to."""
        found: Found = []
        changes = self._changes(frame, before, found)
        if changes:
            extra.append(f'"v":[{",".join(changes)}]')
        if value:
            extra.append(f'"r":{self._encoder.encode(value[0], found)}')
        if found:
            heap = self._encoder.heap(found, MAX_OBJECTS)
            if heap:
                extra.append(f'"h":[{",".join(heap)}]')

    def _changes(self, frame: FrameType, before: dict[str, str], found: Found) -> list[str]:
        """Return the variables that differ from ``before``, names and values in turn, and update it."""
        variables = frame.f_locals
        if type(variables) is not LOCALS and type(variables) is not dict:
            return []  # a mapping of the program's own
        if len(variables) > MAX_VARIABLES:
            self._counters[SHORTENED] += 1
        encode = self._encoder.encode
        changes: list[str] = []
        current = 0
        for name, value in list(islice(variables.items(), MAX_VARIABLES)):
            if type(name) is not str or (name[:2] == "__" and name[-2:] == "__"):
                continue  # what the interpreter keeps there
            current += 1
            text = encode(value, found)
            if before.get(name) != text:
                before[name] = text
                changes += (quote(name), text)
        if current < len(before):
            for name in list(before):
                if name not in variables:
                    del before[name]
                    changes += (quote(name), '["DEL"]')
        return changes
