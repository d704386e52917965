"""Reports the uncaught exception: type, message, traceback, causes, group, without the program's code.

The report is JSON with the fields of the result's ``exception`` object, but for the source lines of the
job's files, which the reader has, and columns, which are byte offsets here.
"""

from __future__ import annotations

from _json import encode_basestring_ascii as quote

from . import raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, TracebackType
    from typing import Any

MAX_DEPTH = 10
MAX_WIDTH = 20
MAX_REPORTS = 60
MAX_FRAMES = 50
"""Frames kept at each end of a traceback."""
MAX_MESSAGE = 1000
MAX_WORD = 200
TRACER_PATH = "/usr/lib/tracefleet/"
LIBRARIES = ("/usr/lib/python3/dist-packages/", "/usr/lib/python3.13/", "/usr/local/lib/python3.13/dist-packages/")

traceback_of: Callable[[BaseException], TracebackType | None] = BaseException.__dict__["__traceback__"].__get__
cause_of: Callable[[BaseException], BaseException | None] = BaseException.__dict__["__cause__"].__get__
context_of: Callable[[BaseException], BaseException | None] = BaseException.__dict__["__context__"].__get__
suppresses: Callable[[BaseException], bool] = BaseException.__dict__["__suppress_context__"].__get__


def message(error: BaseException) -> str:
    """Return what the exception says, as its C type words it, or from its arguments.

    The words of a C type are used only when every argument is plain; a ``__str__`` of the program never.
    """
    kind = type(error)
    arguments = raw.args_of(error)
    if raw.inherits(kind, BaseExceptionGroup):
        return _group_message(error)
    if raw.inherits(kind, SyntaxError):
        said = SyntaxError.__dict__["msg"].__get__(error)
        return said[:MAX_MESSAGE] if type(said) is str else ""
    for base in raw.mro_of(kind):
        words: Any = raw.dict_of(base).get("__str__")
        if words is not None:
            if raw.is_in_c(base) and all(map(_is_plain, arguments)) and _has_plain_fields(error, kind):
                return str(words(error))[:MAX_MESSAGE]
            break
    if len(arguments) == 1:
        only = arguments[0]
        return only[:MAX_MESSAGE] if type(only) is str else describe(only)
    return describe(arguments) if arguments else ""


def describe(value: Any, depth: int = 2) -> str:
    """Return a bounded text of a value, like its ``repr`` where that is the interpreter's own."""
    kind = type(value)
    if kind is str or kind is bytes:
        return repr(value[:MAX_WORD])
    if kind is int:
        return repr(value) if value.bit_length() <= 256 else f"<int of {value.bit_length()} bits>"
    if _is_plain(value):
        return repr(value)
    if depth and (kind is list or kind is tuple or kind is set):
        inner = ", ".join([describe(item, depth - 1) for _, item in zip(range(8), value, strict=False)])
        inner += ", ..." if len(value) > 8 else ""
        if kind is tuple:
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        return f"[{inner}]" if kind is list else f"{{{inner}}}"
    if depth and kind is dict:
        pairs = [f"{describe(k, depth - 1)}: {describe(v, depth - 1)}" for _, (k, v) in zip(range(8), value.items(), strict=False)]
        return "{" + ", ".join(pairs) + (", ..." if len(value) > 8 else "") + "}"
    if kind is type:
        return f"<class '{raw.full_name(value)}'>"
    return f"<{raw.full_name(kind)} object>"


class Reporter:
    """Builds the report of one uncaught exception."""

    def __init__(self, is_user: Callable[[CodeType], bool]) -> None:
        """``is_user`` tells user code from the library."""
        self._is_user = is_user
        self._left = MAX_REPORTS
        self._outer: list[BaseException] = []

    def report(self, error: BaseException, depth: int = MAX_DEPTH) -> str:
        """Return the JSON of an exception and of those it is chained to or groups.

        Of a chain in a circle, each exception once.
        """
        self._left -= 1
        frames = [frame for frame in _frames(traceback_of(error)) if not frame[0].co_filename.startswith(TRACER_PATH)]
        cause = cause_of(error)
        context = None if cause is not None or suppresses(error) else context_of(error)
        group: tuple[Any, ...] = ()
        if raw.inherits(type(error), BaseExceptionGroup):
            group = BaseExceptionGroup.__dict__["exceptions"].__get__(error)[:MAX_WIDTH]
        self._outer.append(error)
        inner = ",".join([self._inner(item, depth) for item in group if self._left > 0])
        text = (
            f'{{"type":{quote(raw.full_name(type(error))[:MAX_WORD])},"message":{quote(message(error)[:MAX_MESSAGE])},'
            f'{self._place(error, frames)},"traceback":[{",".join(self._shown(frames))}],'
            f'"cause":{self._inner(cause, depth)},"context":{self._inner(context, depth)},"group":[{inner}]}}'
        )
        self._outer.pop()
        return text

    def _inner(self, error: BaseException | None, depth: int) -> str:
        if error is None or depth <= 1 or self._left <= 0 or any(error is outer for outer in self._outer):
            return "null"
        return self.report(error, depth - 1)

    def _place(self, error: BaseException, frames: list[tuple[CodeType, int, int]]) -> str:
        """Return file, line, column and function of the innermost user frame, or of a syntax error."""
        for code, line, last in reversed(frames):
            if self._is_user(code):
                return _at(code.co_filename, line, code.co_qualname, _byte_column(code, last), "byte_column")
        if raw.inherits(type(error), SyntaxError):
            fields = raw.dict_of(SyntaxError)
            file, line, column = (fields[name].__get__(error) for name in ("filename", "lineno", "offset"))
            if type(file) is str and type(line) is int:
                return _at(file, line, "<module>", column if type(column) is int else None, "column")
        return _at("", 0, "", None, "column")

    def _shown(self, frames: list[tuple[CodeType, int, int]]) -> list[str]:
        """Return the traceback's frames as JSON: all, or the first and the last of many."""
        if len(frames) > 2 * MAX_FRAMES:
            frames = frames[:MAX_FRAMES] + frames[-MAX_FRAMES:]
        shown = []
        for code, line, _ in frames:
            library = "" if self._is_user(code) else ',"library":true'
            place = f'"file":{_path(code.co_filename)},"line":{line},"function":{quote(code.co_qualname[:MAX_WORD])}'
            shown.append(f"{{{place}{library}}}")
        return shown


def _frames(traceback: TracebackType | None) -> list[tuple[CodeType, int, int]]:
    """Return code, line and last instruction of each frame, outermost first."""
    frames = []
    while traceback is not None:
        frames.append((traceback.tb_frame.f_code, traceback.tb_lineno or 0, traceback.tb_lasti))
        traceback = traceback.tb_next
    return frames


def _at(file: str, line: int, function: str, column: int | None, unit: str) -> str:
    where = "null" if column is None or column < 0 else str(column)
    return f'"file":{_path(file)},"line":{max(line, 0)},"{unit}":{where},"function":{quote(function[:MAX_WORD])}'


def _path(filename: str) -> str:
    """Return a file's name as JSON: below the job's folder, or below the library it belongs to."""
    for root in ("/job/", *LIBRARIES):
        if filename.startswith(root):
            return quote(filename[len(root) :][: 2 * MAX_WORD])
    return quote(filename[: 2 * MAX_WORD])


def _byte_column(code: CodeType, last: int) -> int | None:
    """Return the byte offset in its line of the expression at an instruction."""
    positions = list(code.co_positions())[max(last, 0) // 2 :]
    return positions[0][2] if positions else None


def _is_plain(value: Any) -> bool:
    """Whether the interpreter itself words the value."""
    kind = type(value)
    if kind is int:
        return bool(value.bit_length() <= 256)
    return value is None or kind is str or kind is bytes or kind is bool or kind is float


def _has_plain_fields(error: BaseException, kind: type) -> bool:
    """Whether the fields that a C type's wording uses besides the arguments are plain."""
    for base, names in (
        (OSError, ("filename", "filename2", "errno", "strerror")),
        (ImportError, ("msg",)),
        (UnicodeDecodeError, ("encoding", "object", "reason")),
        (UnicodeEncodeError, ("encoding", "object", "reason")),
        (UnicodeTranslateError, ("object", "reason")),
    ):
        if raw.inherits(kind, base):
            fields = raw.dict_of(base)
            return all(_is_plain(fields[name].__get__(error)) for name in names)
    return True


def _group_message(error: BaseException) -> str:
    text = BaseExceptionGroup.__dict__["message"].__get__(error)
    count = len(BaseExceptionGroup.__dict__["exceptions"].__get__(error))
    return f"{raw.text(text)} ({count} sub-exception{'s' if count > 1 else ''})"


def is_syntax_error(error: BaseException) -> bool:
    """Whether an exception is one of the compiler's, raised before any frame ran."""
    return raw.inherits(type(error), SyntaxError) and traceback_of(error) is None
