"""The code objects of the program: which are user code, their numbers, their counters.

User code is decided by path, never by module name: files of the job below the included paths, and
what user code itself runs with ``exec`` or ``eval``. Code objects are keyed by ``id`` and kept alive;
hashing one reads all of it, so only code made at run time is hashed.
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident

from . import loops
from .memory import DEFS, NOWHERE, UNKNOWN, Slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from .memory import Memory

JOB = "/job/"
DEFS_RESERVE = 384 << 10
"""Bytes of the definitions' area that stay free for the exception report."""
MAX_DYNAMIC = 4096
"""Code objects made at run time that are followed at once; older ones drop out."""
MAX_NAME = 200
MAX_ARGUMENTS = 30
MAX_WAIT = 1
"""Seconds to wait for another thread's definition."""
OPTIMIZED, VARARGS, VARKEYWORDS, GENERATOR, COROUTINE, ASYNC_GENERATOR = 0x1, 0x4, 0x8, 0x20, 0x80, 0x200
KINDS = {"<lambda>": "lambda", "<genexpr>": "genexpr"}


class Facts:
    """What the callbacks need to know of one function of user code.

    ``lines`` gives the counter of a line, negative where LINE events also have ``probes``: counters by
    offset. ``arrivals`` gives the counter of jumps and branches that arrive at an offset, ``callers``
    that of calls from another function.
    """

    __slots__ = ("arrivals", "callers", "calls", "line", "lines", "number", "probes")

    def __init__(self, number: int, line: int, calls: int) -> None:
        """Start without counters of lines; ``line`` is the first of the function."""
        self.number = number
        self.line = line
        self.calls = calls
        self.lines: dict[int, int] = {}
        self.probes: dict[int, int] = {}
        self.arrivals: dict[int, int] = {}
        self.callers: dict[Facts, int] = {}


class Codes:
    """The register: ``known`` has the facts of every code object of user code, by ``id(code)``."""

    def __init__(self, memory: Memory, include: list[str], with_lines: bool, quote: Callable[[str], str]) -> None:
        """``include`` are paths below the job's folder; ``quote`` makes an ASCII JSON string."""
        self.known: dict[int, Facts] = {}
        self._write = memory.writer(DEFS, DEFS_RESERVE)
        self._counters = memory.counters
        self._slots = Slots(memory)
        self.with_lines = with_lines
        self._quote = quote
        self._roots = tuple(JOB if path == "." else JOB + path for path in include)
        self._files: dict[str, int] = {}
        self._alive: list[CodeType] = []
        self._count = 0
        self._dynamic: dict[int, CodeType] = {}
        self._same: dict[CodeType, Facts] = {}
        self._lock = allocate_lock()
        self._definer = 0

    def facts(self, code: CodeType, frame: FrameType) -> Facts | None:
        """Return the facts of user code, defining it at first sight; None for other code.

        ``frame`` is a frame that begins to run the code. Code that ``exec`` or ``eval`` runs is user
        code when user code called them. None too when the memory has no room for another
        definition; that is counted.

        One thread at a time, as numbers go by the order in memory. A signal handler of the program that
        comes in between goes without.
        """
        me = get_ident()
        if self._definer == me or not self._lock.acquire(timeout=MAX_WAIT):
            self._counters[UNKNOWN] += 1
            return None
        try:
            self._definer = me
            return self.known.get(id(code)) or self._find(code, frame)
        finally:
            self._definer = 0
            self._lock.release()

    def _find(self, code: CodeType, frame: FrameType) -> Facts | None:
        """Define code if it is user code."""
        if code.co_name == "<module>" and not self.is_included(code.co_filename):
            caller = frame.f_back
            if caller is not None and id(caller.f_code) in self.known:
                self._adopt(code)
        key = id(code)
        if key in self._dynamic:
            known = self._same.get(code)
            if known is None:
                known = self._define(code)
                if known is not None:
                    self._same[code] = known
        elif self.is_included(code.co_filename):
            known = self._define(code)
            self._alive.append(code)
        else:
            return None
        if known is None:
            self._counters[UNKNOWN] += 1
            return None
        self.known[key] = known
        return known

    def is_user(self, code: CodeType) -> bool:
        """Whether code is user code."""
        return id(code) in self.known or self.is_included(code.co_filename)

    def edge(self, caller: Facts, callee: Facts) -> int:
        """Return the counter of calls from one function to another; ``NOWHERE`` when there is none left."""
        slot = self._slots.take(1)
        if not slot or not self._write(f'["edge",{caller.number},{callee.number},{slot}]'):
            self._counters[UNKNOWN] += 1
            slot = NOWHERE
        callee.callers[caller] = slot
        return slot

    def is_included(self, filename: str) -> bool:
        """Whether a file counts as user code by its path."""
        if type(filename) is not str or filename[:1] == "<":
            return False
        path = filename if filename[:1] == "/" else JOB + filename
        return any(path == root or path.startswith(root if root[-1] == "/" else root + "/") for root in self._roots)

    def _adopt(self, code: CodeType) -> None:
        """Take code that user code compiled, and the functions in it, as user code."""
        if len(self._dynamic) >= MAX_DYNAMIC:
            for key in list(self._dynamic)[: MAX_DYNAMIC // 2]:
                del self._dynamic[key]
                self.known.pop(key, None)
        self._dynamic[id(code)] = code
        for constant in code.co_consts:
            if type(constant) is type(code) and id(constant) not in self._dynamic:
                self._adopt(constant)

    def _define(self, code: CodeType) -> Facts | None:
        """Write the definition of a code object and give it counters; None when there is no room."""
        file = self._file(code.co_filename)
        lines = sorted({line for _, _, line in code.co_lines() if line}) if self.with_lines else []
        calls = self._slots.take(1 + len(lines))
        if not file or not calls:
            return None
        facts = Facts(self._count + 1, code.co_firstlineno, calls)
        quote = self._quote
        arguments = code.co_argcount + code.co_kwonlyargcount
        arguments += bool(code.co_flags & VARARGS) + bool(code.co_flags & VARKEYWORDS)
        names = ",".join([quote(name[:MAX_NAME]) for name in code.co_varnames[: min(arguments, MAX_ARGUMENTS)]])
        if not self._write(
            f'["code",{facts.number},{file},{code.co_firstlineno},{quote(code.co_qualname[:MAX_NAME])},'
            f'"{kind(code)}",[{names}],{calls},[{_runs(lines)}]]'
        ):
            return None
        self._count += 1
        facts.lines = {line: calls + 1 + index for index, line in enumerate(lines)}
        if lines:
            self._define_loops(code, facts)
        return facts

    def _define_loops(self, code: CodeType, facts: Facts) -> None:
        """Decide how the body entries of each loop are counted, and write that down."""
        for loop in loops.find(code):
            if loop.body_line and _is_one_run(code, loop.body_line):
                self._write(f'["loop",{facts.number},{loop.line},[{facts.lines[loop.body_line]}]]')
                continue
            slot = self._slots.take(1)
            if not slot:
                return
            counted = str(slot)
            if loop.body_line:
                facts.probes[loop.body] = slot
                facts.lines[loop.body_line] = -abs(facts.lines[loop.body_line])
            else:
                facts.arrivals[loop.body] = slot
                if loop.entered_by_line and loop.line in facts.lines:
                    counted += f",{abs(facts.lines[loop.line])}"
            self._write(f'["loop",{facts.number},{loop.line},[{counted}]]')

    def _file(self, filename: str) -> int:
        """Return the number of a source file, defining it at first sight; 0 when there is no room."""
        path = filename.removeprefix(JOB)
        number = self._files.get(path)
        if number is None:
            number = len(self._files) + 1
            if not self._write(f'["file",{number},{self._quote(path[: 2 * MAX_NAME])}]'):
                return 0
            self._files[path] = number
        return number


def kind(code: CodeType) -> str:
    """Return what sort of function a code object is, in the words of execution-trace/1."""
    flags = code.co_flags
    name = code.co_name
    if name in KINDS:
        return KINDS[name]
    if flags & ASYNC_GENERATOR:
        return "async_generator"
    if flags & COROUTINE:
        return "coroutine"
    if flags & GENERATOR:
        return "generator"
    if flags & OPTIMIZED:
        return "function"
    return "module" if name == "<module>" else "class"


def _runs(lines: list[int]) -> str:
    """Return sorted lines as JSON numbers: first and last of each run."""
    runs: list[int] = []
    for line in lines:
        if runs and runs[-1] == line - 1:
            runs[-1] = line
        else:
            runs += (line, line)
    return ",".join(map(str, runs))


def _is_one_run(code: CodeType, line: int) -> bool:
    """Whether the line's instructions are together, so that its LINE event is its only entrance."""
    runs = 0
    previous: int | None = None
    for _, _, current in code.co_lines():
        runs += current == line and previous != line
        previous = current
    return runs == 1
