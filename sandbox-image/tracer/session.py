"""The way from an empty interpreter to one that is ready to run the program, and the program's end."""

from __future__ import annotations

import atexit
import os
import sys

from . import control, failure, process, recursion, streams
from .codes import Codes
from .events import Events
from .memory import DEFS, END, FLAGS, FORKED, Memory
from .recorder import Recorder
from .values import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

getframe = sys._getframe


def begin() -> None:
    """Report ready, take the order, and arrange everything for the program. Blocks in between."""
    if not process.is_replacement():
        control.report_ready()
    order = control.read_order()
    if order.entrypoint != process.DEFAULT_ENTRYPOINT and not process.is_replacement():
        control.keep_order(order)
        process.replace(order)
    memory = Memory(control.MEMORY_FD, order.size, order.areas)
    os.close(control.MEMORY_FD)
    os.close(control.CONTROL_FD)
    process.dress(order)
    process.set_limits(order)
    session = Session(memory, order)
    streams.count(memory.counters)
    recursion.make_room()
    os.register_at_fork(after_in_child=session.forked)
    atexit.register(session.finish)
    sys.addaudithook(session.on_audit)


class Session:
    """One run of a program: when recording starts, what becomes of its uncaught exception, its end."""

    def __init__(self, memory: Memory, order: control.Order) -> None:
        """Make the recorder, unless the order wants the program untraced."""
        self._counters = memory.counters
        self._define = memory.writer(DEFS)
        self._end = memory.writer(END)
        self._is_traced = order.mode != "off"
        with_lines = order.mode in ("full", "lines")
        self._codes = Codes(memory, order.include, with_lines, quote)
        self._events = Events(memory, order.events if self._is_traced else 0, order.mode == "full" and order.values)
        self._recorder = Recorder(self._codes, memory.counters, self._events, with_lines, order.exact_ms)
        self._has_begun = False
        self._failed = ""
        self._define(f'["producer",{quote(control.TRACER)},{quote(control.version())}]')

    def on_audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Follow the audit events that say what the interpreter is about to do. Never raises."""
        try:
            if event == "exec":
                if self._has_begun and self._codes.known.get(id(getframe(1).f_code)) is not None:
                    self._codes.adopt(arguments[0])
            elif event == "cpython.run_file":
                if not self._has_begun:
                    self._has_begun = True
                    self._events.begin()
                    if self._is_traced:
                        self._recorder.start()
            elif event == "sys.excepthook" and not self._failed and _is_outermost():
                self._report(arguments[2])
            elif event == "sys.monitoring.register_callback" and self._has_begun:
                self._recorder.note_callback(arguments[0])
        except BaseException:  # noqa: BLE001 - it would stop what the program is doing
            return

    def forked(self) -> None:
        """In a forked child: leave the memory to the parent."""
        self._counters[FLAGS] |= FORKED
        self._has_begun = False
        self._failed = "child"
        self._recorder.stop()
        atexit.unregister(self.finish)

    def finish(self) -> None:
        """Write the end record: the program ended in the interpreter's own way."""
        attached = not self._is_traced or self._recorder.is_attached()
        if self._is_traced and attached:
            self._recorder.stop()
        self._end(f'{{"kind":{quote(self._failed or "exit")}}}')

    def _report(self, error: BaseException) -> None:
        """Write the report of the uncaught exception."""
        self._failed = "exception"
        if failure.is_syntax_error(error):
            self._failed = "syntax_error"
        text = failure.Reporter(self._is_user).report(error)
        self._define(f'["exception",{quote(self._failed)},{text}]')

    def _is_user(self, code: Any) -> bool:
        return id(code) in self._codes.known or self._codes.is_included(code.co_filename)


def _is_outermost() -> bool:
    """Whether the interpreter itself raised the audit event: the program has no frame any more."""
    try:
        getframe(2)
    except ValueError:
        return True
    return False
