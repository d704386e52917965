"""The way from an empty interpreter to one that is ready to run the program, and the program's end."""

from __future__ import annotations

import atexit
import os
import sys

from _json import encode_basestring_ascii as quote

from . import _recorder, control, departure, failure, process, raw
from .memory import DEFS, DETACHED, END, FLAGS, FORKED, Memory
from .recorder import Recorder, user_code


def begin() -> None:
    """Report ready, take the order, and arrange everything for the program. Blocks in between."""
    process.look_ahead()
    _recorder.measure()
    control.report_ready()
    order = control.read_order()
    memory = Memory(control.MEMORY_FD, order.size, order.areas)
    os.close(control.MEMORY_FD)
    process.dress(order)
    process.set_limits(order)
    session = Session(memory, order)
    control.report_start()
    session.start()


class Session:
    """One run of a program: the recorder, what becomes of the uncaught exception, the end."""

    def __init__(self, memory: Memory, order: control.Order) -> None:
        """Make the recorder, unless the order wants the program untraced."""
        self._counters = memory.counters
        self._define = memory.writer(DEFS)
        self._end = memory.writer(END)
        self._kind = "exit"
        self._raised = False
        self._left = False
        self._recorder: Recorder | None = None
        self._define(f'["producer",{quote(control.TRACER)},{quote(control.version())}]')
        self._is_user = user_code(order.include)
        if order.mode != "off":
            self._recorder = Recorder(memory, order, self.fail)
            self._is_user = self._recorder.is_user

    def start(self) -> None:
        """Attach to the interpreter: from here on user code is recorded."""
        os.register_at_fork(after_in_child=type(self.leave)(_recorder.hush, self.leave))
        atexit.register(_recorder.depart, self.finish)
        self._streams = departure.Streams()
        if self._recorder is not None:
            self._silent = departure.silent()
            self._recorder.start()

    def fail(self, error: BaseException) -> None:
        """Write the report of the exception that ends the program; of an exit there is none."""
        self._raised = True
        if self._kind != "exit" or raw.inherits(type(error), SystemExit):
            return
        self._kind = "syntax_error" if failure.is_syntax_error(error) else "exception"
        text = failure.Reporter(self._is_user).report(error)
        self._define(f'["exception",{quote(self._kind)},{text}]')

    def finish(self) -> bool:
        """Write the end record: the program ended in the interpreter's own way.

        Returns whether the process may end now, with status 0, as far as can be seen from here: all output is written then.

        The recorder reports an exception when it leaves the program's last frame. What never got
        so far, a program that does not compile, or one that is not recorded, the interpreter
        has put into ``sys.last_exc``. A program that runs the functions of ``atexit`` itself has not ended.
        """
        if sys._getframe().f_back is not None:
            return False
        recorder = self._recorder
        if recorder is None or not recorder.began:
            error = vars(sys).get("last_exc")
            if error is not None and raw.inherits(type(error), BaseException):
                self.fail(error)
        if recorder is not None and not recorder.stop():
            self._counters[FLAGS] |= DETACHED
        self._end(f'["end",{quote(self._kind)}]')
        written = self._streams.write_out()
        if recorder is None or not recorder.began or self._raised or self._counters[FLAGS] & DETACHED:
            return False
        return written and departure.unnoticed(self._silent, Session)

    def leave(self) -> None:
        """In a forked child: leave the memory to the parent. A child of that child has none of it any more."""
        if self._left:
            return
        self._left = True
        self._counters[FLAGS] |= FORKED
        atexit.unregister(_recorder.depart)
        if self._recorder is not None:
            self._recorder.stop()
