"""What the recorder does with exceptions: the program's on their way, and its own."""

from __future__ import annotations

import os

from _opcode_metadata import opmap  # type: ignore[import-not-found]

from . import raw
from .failure import TRACER_PATH, traceback_of
from .memory import FLAGS, HIT_DISK, HIT_FILE_SIZE, HIT_FILES, HIT_INODES, INPUT_ENDED, LOST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType, TracebackType

    from .codes import Facts

EMFILE, EFBIG, ENOSPC = 24, 27, 28
MAX_TRACEBACK = 2000
START, CALL, RAISE = (opmap[name] for name in ("RESUME", "CALL", "RAISE_VARARGS"))
statvfs = os.statvfs
errno_of = OSError.__dict__["errno"].__get__


def settle(error: BaseException, counters: memoryview[int]) -> None:
    """Swallow and count what a callback itself raised; let through what the program's code raised.

    A signal handler of the program may run between two instructions of a callback.
    """
    last = traceback_of(error)
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    ours = last is None or last.tb_frame.f_code.co_filename.startswith(TRACER_PATH)
    if ours and type(error) is not KeyboardInterrupt:
        counters[LOST] += 1
        return
    raise error


def clean(error: BaseException, frame: FrameType) -> None:
    """Take the tracer's frames, and what only the tracer made happen, out of a traceback.

    The frame is the one that the exception has just come to. When a callback finds no room below
    the recursion limit at the start of a function, the call fails one frame too deep: in
    the function that would not have started without the tracer.
    """
    first = traceback_of(error)
    if first is None or first.tb_next is None:
        return
    inner: TracebackType | None = first.tb_next
    code = first.tb_next.tb_frame.f_code
    if code.co_filename.startswith(TRACER_PATH):
        while inner is not None and inner.tb_frame.f_code.co_filename.startswith(TRACER_PATH):
            inner = inner.tb_next
        first.tb_next = inner
    elif type(error) is RecursionError and first.tb_next.tb_next is None:
        if code.co_code[first.tb_next.tb_lasti] == START:
            first.tb_next = None


def is_new(error: BaseException, known: dict[int, Facts]) -> bool:
    """Whether an exception met in a user frame has not been in a deeper user frame before."""
    entry = traceback_of(error)
    steps = MAX_TRACEBACK
    while entry is not None and steps:
        entry = entry.tb_next
        if entry is not None and id(entry.tb_frame.f_code) in known:
            return False
        steps -= 1
    return True


def ends_iteration(error: BaseException) -> bool:
    """Whether an exception is one with which an iteration ends."""
    kind = type(error)
    return kind is StopIteration or kind is StopAsyncIteration or kind is GeneratorExit


def is_internal(code: CodeType, offset: int) -> bool:
    """Whether the end of an iteration was raised by a loop or an ``await`` rather than by a call or ``raise``."""
    operation = code.co_code[offset]
    return bool(operation != CALL and operation != RAISE)


def note_limit(error: BaseException, counters: memoryview[int]) -> None:
    """Remember that the program met a limit, or the end of its input."""
    kind = type(error)
    if kind is EOFError:
        counters[FLAGS] |= INPUT_ENDED
    elif raw.inherits(kind, OSError):
        number = errno_of(error)
        if number == EMFILE:
            counters[FLAGS] |= HIT_FILES
        elif number == EFBIG:
            counters[FLAGS] |= HIT_FILE_SIZE
        elif number == ENOSPC:
            full = statvfs("/job").f_favail == 0 or statvfs("/tmp").f_favail == 0
            counters[FLAGS] |= HIT_INODES if full else HIT_DISK
