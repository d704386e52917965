"""The recorder: callbacks on ``sys.monitoring`` that write the first events, then only count.

What a recorder offers the rest of the tracer is ``start``, ``stop`` and ``main``; what it writes is laid down in
docs/trace-format.md. Its callbacks never raise of themselves: a failure of theirs is counted and swallowed. What a
signal handler of the program raises while one of them runs goes on to the program. Counting calls no other Python
function, so that it works on the very last frame that the recursion limit allows.
"""

from __future__ import annotations

import sys
from _functools import partial  # type: ignore[import-not-found]
from _thread import get_ident
from time import process_time_ns

from . import raising
from .attachment import Attachment
from .events import CALL, EXCEPTION, LINE, RESUME, RETURN, THROW, UNWIND, YIELD
from .memory import BY_TIME, DETACHED, FLAGS, INEXACT, LOST, MAX_DEPTH, OTHER, RAISED, THREADS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

    from .codes import Codes, Facts
    from .events import Events

MASK = 1023
"""A place that was hit a multiple of MASK + 1 times looks at the clock."""
SATURATED = 1000
"""Hits after which a place is no longer counted once exact counting has cost enough."""

events = sys.monitoring.events
DISABLE = sys.monitoring.DISABLE
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
        self.exact_until = process_time_ns() + exact_ms * 1_000_000
        # By thread: its number and the functions of user code that are running in it, outermost first.
        self.threads: dict[int, tuple[int, list[Facts]]] = {}
        self.deepest = 0
        self.local = events.PY_RETURN | events.PY_YIELD | events.PY_RESUME | (events.LINE if codes.with_lines else 0)
        callbacks: dict[int, Callable[..., Any]] = {
            events.PY_START: self.on_start,
            events.PY_RESUME: self.on_resume,
            events.PY_RETURN: partial(self.on_leave, RETURN),
            events.PY_YIELD: partial(self.on_leave, YIELD),
            events.PY_THROW: self.on_throw,
            events.PY_UNWIND: self.on_unwind,
            events.RAISE: self.on_raise,
            events.LINE: self.on_line,
            events.JUMP: self.on_arrival,
            events.BRANCH: self.on_arrival,
        }
        self.attachment = Attachment(callbacks, events.PY_START | events.PY_THROW | events.PY_UNWIND | events.RAISE)
        self.start = self.attachment.start

    def stop(self) -> None:
        """Detach; note it when the program did so before."""
        self.recording = False
        if not self.attachment.stop():
            self.counters[FLAGS] |= DETACHED

    def on_start(self, code: CodeType, offset: int) -> Any:
        """A function of any code begins: count it, or switch the event off when it is not user code."""
        try:
            facts = self.known.get(id(code))
            if facts is None:
                frame = getframe(1)
                if self.main is None and frame.f_back is None and code.co_name == "<module>":
                    self.main = code
                facts = self.codes.facts(code, frame)
                if facts is None:
                    return DISABLE
                jumps = events.JUMP | events.BRANCH if facts.arrivals else 0
                self.attachment.follow(code, self.local | jumps)
            counters = self.counters
            hits = counters[facts.calls] + 1
            counters[facts.calls] = hits
            if self.saturating:
                return self.judge(hits)
            number, stack = self.threads.get(get_ident()) or self.new_thread()
            caller = stack[-1] if stack else None
            stack.append(facts)
            if len(stack) > self.deepest:
                self.deepest = counters[MAX_DEPTH] = len(stack)
            if caller is not None:
                counters[facts.callers.get(caller) or self.codes.edge(caller, facts)] += 1
            if self.recording:
                self.keep(CALL, facts, getframe(1), code.co_firstlineno, len(stack), number)
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
                number, stack = self.threads[get_ident()]
                self.keep(LINE, facts, getframe(1), line, len(stack), number)
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

    def on_leave(self, kind: int, code: CodeType, offset: int, value: Any) -> Any:
        """A function of user code returns, or a generator or coroutine hands over a value and is suspended."""
        try:
            if self.saturating:
                return DISABLE
            self.counters[OTHER] += 1
            number, stack = self.threads[get_ident()]
            facts = stack.pop()
            if self.recording:
                frame = getframe(1)
                self.keep(kind, facts, frame, frame.f_lineno, len(stack) + 1, number, (value,))
        except RecursionError:
            self.counters[LOST] += 1
            self.log.frames.pop(id(getframe(1)), None)
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
            facts = self.known[id(code)]
            number, stack = self.threads.get(get_ident()) or self.new_thread()
            stack.append(facts)
            if len(stack) > self.deepest:
                self.deepest = counters[MAX_DEPTH] = len(stack)
            if self.recording:
                frame = getframe(1)
                self.keep(RESUME, facts, frame, frame.f_lineno, len(stack), number)
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
            number, stack = self.threads.get(get_ident()) or self.new_thread()
            stack.append(facts)
            if self.recording:
                frame = getframe(1)
                self.keep(THROW, facts, frame, frame.f_lineno, len(stack), number, (), error)
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
            if self.saturating and self.counters[RAISED] > SATURATED:
                self.ignore_raising()
            ends = raising.ends_iteration(error)
            if self.missed or raising.is_new(error, self.known):
                raising.note_limit(error, self.counters)
                self.counters[RAISED] += not ends
                self.missed = False
            counted = True
            if self.recording and not (ends and raising.is_internal(code, frame.f_lasti)):
                number, stack = self.threads[get_ident()]
                self.keep(EXCEPTION, facts, frame, frame.f_lineno, len(stack), number, (), error)
        except RecursionError:
            self.counters[LOST] += 1
            self.missed = not counted  # the next frame that it comes to counts it
        except BaseException as raised:
            raising.settle(raised, self.counters)

    def on_unwind(self, code: CodeType, offset: int, error: BaseException) -> None:
        """A frame of any code ends by an exception."""
        try:
            if code is self.main and getframe(1).f_back is None:
                self.fail(error)
            facts = self.known.get(id(code))
            if facts is None or self.saturating:
                return
            self.counters[OTHER] += 1
            number, stack = self.threads[get_ident()]
            stack.pop()
            if self.recording:
                frame = getframe(1)
                self.keep(UNWIND, facts, frame, frame.f_lineno, len(stack) + 1, number, (), error)
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
        elif not log.room & 63 and process_time_ns() > self.exact_until:
            log.close(BY_TIME)
            self.recording = False

    def ignore_raising(self) -> None:
        """Stop following exceptions; only how the program itself ends is still seen."""
        self.counters[FLAGS] |= INEXACT
        self.attachment.narrow(events.PY_START | events.PY_UNWIND)

    def new_thread(self) -> tuple[int, list[Facts]]:
        """Return the state of a thread in which user code runs for the first time."""
        self.counters[THREADS] += 1
        state = self.threads[get_ident()] = (self.counters[THREADS], [])
        return state

    def judge(self, hits: int) -> Any:
        """Say whether a place is still counted after so many hits."""
        if self.saturating:
            if hits < SATURATED:
                return None
            self.counters[FLAGS] |= INEXACT
            return DISABLE
        self.saturating = process_time_ns() > self.exact_until
        return None
