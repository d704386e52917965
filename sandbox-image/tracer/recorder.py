"""Attaches the recorder in C to the interpreter and to the program's streams.

What it records is laid down in docs/trace-format.md; how, in ``native/recorder.h``.
"""

from __future__ import annotations

import sys

from . import _recorder
from .attachment import Attachment
from .failure import message
from .memory import STDERR, STDOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

    from .control import Order
    from .memory import Memory

JOB = "/job/"
events = sys.monitoring.events
FOLLOWED = (
    events.PY_START, events.PY_RESUME, events.PY_RETURN, events.PY_YIELD, events.LINE,
    events.JUMP, events.BRANCH, events.RAISE, events.PY_UNWIND, events.PY_THROW,
)


class Recorder:
    """Counts everything the program does, and keeps the first and the last events."""

    def __init__(self, memory: Memory, order: Order, fail: Callable[[BaseException], None]) -> None:
        """Prepare; ``fail`` gets the exception with which the program's last frame ends."""
        self._counters = memory.counters
        self._native = _recorder.Recorder(
            memory=memory.map, areas=memory.areas, include=tuple(map(_prefixes, order.include)),
            lines=order.mode in ("full", "lines"), values=order.mode == "full" and order.values, events=order.events,
            exact_ms=order.exact_ms, disable=sys.monitoring.DISABLE, set_local=sys.monitoring.set_local_events,
            set_events=sys.monitoring.set_events, restart=sys.monitoring.restart_events, fail=fail, message=message,
            pass_after=order.pass_after, cpu_ms=order.cpu_ms, wall_end_ms=order.wall_end_ms, burst_ms=order.burst_ms,
        )
        self._attachment = Attachment({event: self._native.callback(event.bit_length() - 1) for event in FOLLOWED})
        self._files: list[Any] = []
        self.is_user: Callable[[CodeType], bool] = self._native.is_user

    @property
    def began(self) -> bool:
        """Whether a function of the program has started."""
        return bool(self._native.began)

    def start(self) -> None:
        """Attach to the interpreter. Raises ``ValueError`` when the tool id is taken."""
        self._count_output()
        self._attachment.start(self._native.mask)
        self._native.listen()

    def stop(self) -> bool:
        """Detach, and say whether the program had left everything in place."""
        self._native.detach()
        for file in self._files:
            vars(file).pop("write", None)
        return self._attachment.stop(self._native.mask)

    def _count_output(self) -> None:
        """Count the bytes that leave through ``sys.stdout`` and ``sys.stderr``, so that events can tell where output belongs.

        The streams stay the interpreter's own objects: only their raw files get a ``write`` of ours in
        front of theirs. What goes to the descriptor in another way is not counted.
        """
        streams: tuple[Any, Any] = (sys.stdout, sys.stderr)
        for stream, counter in zip(streams, (STDOUT, STDERR), strict=True):
            file = stream.buffer.raw
            file.write = self._native.counting(file.write, counter)
            self._files.append(file)


def _prefixes(path: str) -> tuple[str, str]:
    """Return the prefixes of included files' names: of absolute ones, and of those below the job's folder."""
    return (JOB, "") if path == "." else (JOB + path, path)


def user_code(include: list[str]) -> Callable[[CodeType], bool]:
    """Return what tells user code by its file alone, for a program that is not recorded."""
    roots = [JOB if path == "." else JOB + path for path in include]

    def is_user(code: CodeType) -> bool:
        name = code.co_filename
        path = name if name[:1] == "/" else JOB + name
        return name[:1] != "<" and any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)

    return is_user
