"""The recorder: callbacks on ``sys.monitoring`` that write the first events, then only count.

What a recorder offers the rest of the tracer is ``start``, ``stop`` and ``is_attached``; what it
writes is laid down in docs/trace-format.md. Its callbacks never raise of themselves: a failure of
theirs is counted and swallowed. What a signal handler of the program raises while one of them runs
goes on to the program. Counting calls no other Python function, so that it works on the very last
frame that the recursion limit allows.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from time import process_time_ns

from . import raising
from .events import CALL, EXCEPTION, LINE, RESUME, RETURN, THROW, UNWIND, YIELD
from .memory import BY_TIME, DETACHED, FLAGS, INEXACT, LOST, MAX_DEPTH, OTHER, RAISED, THREADS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

    from .codes import Codes, Facts
    from .events import Events

TOOL = 4
"""Tool id of ``sys.monitoring``: one that no known tool claims."""
NAME = "tracefleet"
MASK = 1023
"""A place that was hit a multiple of MASK + 1 times looks at the clock."""
SATURATED = 1000
"""Hits after which a place is no longer counted once exact counting has cost enough."""
MAX_LIBRARY_FRAMES = 60
"""Library frames to look through for the user frame that made a call."""

monitoring = sys.monitoring
events = monitoring.events
DISABLE = monitoring.DISABLE
getframe = sys._getframe


class Recorder:
    """Counts everything, and hands events to ``Events`` while that has room."""

    def __init__(
        self, codes: Codes, counters: memoryview[int], log: Events, exact_ms: int, fail: Callable[[BaseException], None]
    ) -> None:
        """Prepare the callbacks.

        ``exact_ms`` is the CPU time in milliseconds up to which every hit is counted; ``fail`` gets the
        exception with which the program's last frame ends.
        """
        self.codes = codes
        self.known = codes.known
        self.counters = counters
        self.log = log
        self.fail = fail
        self.main: CodeType | None = None
        self.recording = log.room > 0
        self.saturating = False
        self.missed = False
        self.exact_ns = exact_ms * 1_000_000
        self.threads: dict[int, list[int]] = {}
        self.local = events.PY_RETURN | events.PY_YIELD | events.PY_RESUME | (events.LINE if codes.with_lines else 0)
        self.callbacks: dict[int, Callable[..., Any]] = {
            events.PY_START: self.on_start,
            events.PY_RESUME: self.on_resume,
            events.PY_RETURN: self.on_return,
            events.PY_YIELD: self.on_yield,
            events.PY_THROW: self.on_throw,
            events.PY_UNWIND: self.on_unwind,
            events.RAISE: self.on_raise,
            events.LINE: self.on_line,
            events.JUMP: self.on_arrival,
            events.BRANCH: self.on_arrival,
        }
        self.mask = events.PY_START | events.PY_THROW | events.PY_UNWIND | events.RAISE

    def start(self) -> None:
        """Attach to the interpreter. Raises ``ValueError`` when the tool id is taken."""
        monitoring.use_tool_id(TOOL, NAME)
        for event, callback in self.callbacks.items():
            monitoring.register_callback(TOOL, event, callback)
        monitoring.set_events(TOOL, self.mask)

    def stop(self) -> None:
        """Detach; local events stay on code objects but reach nobody."""
        self.recording = False
        if monitoring.get_tool(TOOL) == NAME:
            monitoring.set_events(TOOL, 0)
        for event in self.callbacks:
            monitoring.register_callback(TOOL, event, None)

    def is_attached(self) -> bool:
        """Whether the program left the recorder in place; if not, that is noted."""
        attached = monitoring.get_tool(TOOL) == NAME and monitoring.get_events(TOOL) == self.mask
        for event, callback in self.callbacks.items():
            attached &= monitoring.register_callback(TOOL, event, None) == callback
        if not attached:
            self.counters[FLAGS] |= DETACHED
        return attached

    def on_start(self, code: CodeType, offset: int) -> Any:
        """A function of any code begins: count it, or switch the event off when it is not user code."""
        try:
            facts = self.known.get(id(code))
            if facts is None:
                facts = self.codes.facts(code, getframe(1))
                if facts is None:
                    return DISABLE
                if self.main is None:
                    self.main = code
                jumps = events.JUMP | events.BRANCH if facts.arrivals else 0
                monitoring.set_local_events(TOOL, code, self.local | jumps)
            counters = self.counters
            hits = counters[facts.calls] + 1
            counters[facts.calls] = hits
            frame = getframe(1)
            if self.saturating:
                return self.judge(hits)
            thread = self.threads.get(get_ident())
            if thread is None:
                counters[THREADS] += 1
                thread = self.threads[get_ident()] = [counters[THREADS], 0]
            thread[1] = depth = thread[1] + 1
            if depth > counters[MAX_DEPTH]:
                counters[MAX_DEPTH] = depth
            caller = frame.f_back
            steps = MAX_LIBRARY_FRAMES
            while caller is not None and steps:
                by = self.known.get(id(caller.f_code))
                if by is not None:
                    counters[facts.callers.get(by.number) or self.codes.edge(by, facts)] += 1
                    break
                caller = caller.f_back
                steps -= 1
            if self.recording:
                self.keep(CALL, facts, frame, code.co_firstlineno, depth, thread[0])
            elif not hits & MASK:
                return self.judge(hits)
        except RecursionError:
            self.counters[LOST] += 1
            self.log.frames.pop(id(getframe(1)), None)
        except BaseException as error:
            raising.settle(error, self.counters)
        return None

    def on_line(self, code: CodeType, line: int) -> Any:
        """A line of user code is about to run."""
        try:
            facts = self.known[id(code)]
            slot = facts.lines.get(line)
            if slot is None:
                return DISABLE  # line 0: what the compiler added
            counters = self.counters
            if slot < 0:
                slot = -slot
                probe = facts.probes.get(getframe(1).f_lasti)
                if probe is not None:
                    counters[probe] += 1
            hits = counters[slot] + 1
            counters[slot] = hits
            if self.recording:
                thread = self.threads[get_ident()]
                self.keep(LINE, facts, getframe(1), line, thread[1], thread[0])
            elif self.saturating or not hits & MASK:
                return self.judge(hits)
        except RecursionError:
            self.counters[LOST] += 1
        except BaseException as error:
            raising.settle(error, self.counters)
        return None

    def on_arrival(self, code: CodeType, offset: int, destination: int) -> Any:
        """A jump or branch of code with a one-line loop: count it when it enters the body."""
        try:
            slot = self.known[id(code)].arrivals.get(destination)
            if slot is None:
                return None
            hits = self.counters[slot] + 1
            self.counters[slot] = hits
            if self.saturating or not hits & MASK:
                return self.judge(hits)
        except RecursionError:
            self.counters[LOST] += 1
        except BaseException as error:
            raising.settle(error, self.counters)
        return None

    def on_return(self, code: CodeType, offset: int, value: Any) -> Any:
        """A function of user code returns."""
        try:
            if self.saturating:
                return DISABLE
            self.counters[OTHER] += 1
            thread = self.threads[get_ident()]
            depth = thread[1]
            thread[1] = depth - 1
            if self.recording:
                frame = getframe(1)
                self.keep(RETURN, self.known[id(code)], frame, frame.f_lineno, depth, thread[0], (value,))
        except RecursionError:
            self.counters[LOST] += 1
            self.log.frames.pop(id(getframe(1)), None)
        except BaseException as error:
            raising.settle(error, self.counters)
        return None

    def on_yield(self, code: CodeType, offset: int, value: Any) -> Any:
        """A generator or coroutine of user code hands over a value and is suspended."""
        try:
            if self.saturating:
                return DISABLE
            self.counters[OTHER] += 1
            thread = self.threads[get_ident()]
            depth = thread[1]
            thread[1] = depth - 1
            if self.recording:
                frame = getframe(1)
                self.keep(YIELD, self.known[id(code)], frame, frame.f_lineno, depth, thread[0], (value,))
        except RecursionError:
            self.counters[LOST] += 1
        except BaseException as error:
            raising.settle(error, self.counters)
        return None

    def on_resume(self, code: CodeType, offset: int) -> Any:
        """A suspended generator or coroutine of user code goes on."""
        try:
            if self.saturating:
                return DISABLE
            counters = self.counters
            counters[OTHER] += 1
            thread = self.threads.get(get_ident())
            if thread is None:
                counters[THREADS] += 1
                thread = self.threads[get_ident()] = [counters[THREADS], 0]
            thread[1] = depth = thread[1] + 1
            if depth > counters[MAX_DEPTH]:
                counters[MAX_DEPTH] = depth
            if self.recording:
                frame = getframe(1)
                self.keep(RESUME, self.known[id(code)], frame, frame.f_lineno, depth, thread[0])
        except RecursionError:
            self.counters[LOST] += 1
        except BaseException as error:
            raising.settle(error, self.counters)
        return None

    def on_throw(self, code: CodeType, offset: int, error: BaseException) -> None:
        """An exception is thrown into a suspended generator or coroutine of any code."""
        try:
            facts = self.known.get(id(code))
            if facts is None or self.saturating:
                return
            self.counters[OTHER] += 1
            thread = self.threads.get(get_ident())
            if thread is None:
                self.counters[THREADS] += 1
                thread = self.threads[get_ident()] = [self.counters[THREADS], 0]
            thread[1] = depth = thread[1] + 1
            if self.recording:
                frame = getframe(1)
                self.keep(THROW, facts, frame, frame.f_lineno, depth, thread[0], (), error)
        except RecursionError:
            self.counters[LOST] += 1
        except BaseException as raised:
            raising.settle(raised, self.counters)

    def on_raise(self, code: CodeType, offset: int, error: BaseException) -> None:
        """An exception is raised in, or passes into, a frame of any code."""
        counted = False
        try:
            frame = getframe(1)
            raising.clean(error, frame)
            facts = self.known.get(id(code))
            if facts is None:
                raising.note_limit(error, self.counters)
                return
            self.counters[OTHER] += 1
            ends = raising.ends_iteration(error)
            if self.missed or raising.is_new(error, self.known):
                raising.note_limit(error, self.counters)
                self.counters[RAISED] += not ends
                self.missed = False
            counted = True
            if self.recording and not (ends and raising.is_internal(code, frame.f_lasti)):
                thread = self.threads[get_ident()]
                self.keep(EXCEPTION, facts, frame, frame.f_lineno, thread[1], thread[0], (), error)
        except RecursionError:
            self.counters[LOST] += 1
            self.missed = not counted  # the next frame that it comes to counts it
        except BaseException as raised:
            raising.settle(raised, self.counters)

    def on_unwind(self, code: CodeType, offset: int, error: BaseException) -> None:
        """A frame of any code ends by an exception."""
        try:
            facts = self.known.get(id(code))
            if facts is None:
                return
            if code is self.main and getframe(1).f_back is None:
                self.fail(error)
            if self.saturating:
                return
            self.counters[OTHER] += 1
            thread = self.threads[get_ident()]
            depth = thread[1]
            thread[1] = depth - 1
            if self.recording:
                frame = getframe(1)
                self.keep(UNWIND, facts, frame, frame.f_lineno, depth, thread[0], (), error)
        except RecursionError:
            self.counters[LOST] += 1
            self.log.frames.pop(id(getframe(1)), None)
        except BaseException as raised:
            raising.settle(raised, self.counters)

    def keep(
        self, kind: int, facts: Facts, frame: FrameType, line: int | None, depth: int, thread: int,
        value: tuple[Any, ...] = (), error: BaseException | None = None,
    ) -> None:
        """Write an event; stop writing when there is no more room for events, bytes or time."""
        log = self.log
        if not log.add(kind, facts, frame, line, depth, thread, value, error):
            self.recording = False
        elif not log.room & 63 and process_time_ns() > self.exact_ns:
            log.close(BY_TIME)
            self.recording = False

    def judge(self, hits: int) -> Any:
        """Say whether a place is still counted after so many hits."""
        if self.saturating:
            if hits < SATURATED:
                return None
            self.counters[FLAGS] |= INEXACT
            return DISABLE
        self.saturating = process_time_ns() > self.exact_ns
        return None
