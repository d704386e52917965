"""The documents of the API as Python sees them."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict, TypeVar, Union

from .errors import TracefleetError


class Status(str, enum.Enum):
    """How a job ended."""

    OK = "ok"
    EXIT_NONZERO = "exit_nonzero"
    EXCEPTION = "exception"
    SYNTAX_ERROR = "syntax_error"
    SIGNALED = "signaled"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    RESULT_INVALID = "result_invalid"
    CANCELED = "canceled"
    REJECTED = "rejected"
    SYSTEM_ERROR = "system_error"

    def __str__(self) -> str:
        return self.value


class Limits(TypedDict, total=False):
    """Limits of a run; what is left out has its default."""

    wall_ms: int
    cpu_ms: int
    memory_bytes: int
    output_bytes: int
    processes: int
    open_files: int
    file_bytes: int
    trace_events: int
    trace_bytes: int


class TraceOptions(TypedDict, total=False):
    """What to trace: mode is full, lines, calls or off."""

    mode: str
    values: bool
    include: list[str]


class JobOptions(TypedDict, total=False):
    """The options of a submission, for ``map``."""

    stdin: str
    args: Sequence[str]
    limits: Limits
    trace: TraceOptions
    id: str
    name: str
    labels: Mapping[str, str]
    queue: str
    tenant: str
    entrypoint: str
    retention_s: int
    traceparent: str


Code = Union[str, Mapping[str, str]]
"""The source of main.py, or the files of a program by their path."""


@dataclass(frozen=True)
class Handle:
    """A job that was submitted. ``created`` is false when it was there already."""

    id: str
    state: str
    created: bool


class FailedRun(TracefleetError):
    """The fleet could not, or would not, run a job. ``result`` says why."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        return f"{self.result.status}: {self.result.error or self.result.headline} ({self.result.id})"


@dataclass(frozen=True)
class Effect:
    """Something outside itself that a program reached for; equal ones are one, told where it was the first time."""

    kind: str
    """file, socket or process."""
    action: str
    """What was done: read, write, connect, run and so on."""
    name: str
    """A path, an address or a command as the program gave it."""
    family: str
    """The address family of a socket, as AF_INET; empty when unknown."""
    error: str | None
    """The name of the first error, as ENOENT; None when none was seen, which is not to say that it went well."""
    times: int
    failures: int
    file: str
    line: int
    function: str
    thread: int
    seq: int
    """The number of the last event before it."""


@dataclass(frozen=True)
class Raised:
    """An exception that was raised in the program's own code, or came into it."""

    number: int
    """Counted from 1; numbers that are missing are left out of the list."""
    type: str
    message: str
    file: str
    line: int
    function: str
    thread: int
    caught: bool | None
    """None when the run ended before that was known."""
    seq: int
    """The number of the last event before it."""


@dataclass(frozen=True)
class ThreadException:
    """An exception that ended a thread other than the main one; the program goes on."""

    thread: int
    type: str
    message: str
    file: str
    line: int
    function: str


_Part = TypeVar("_Part", Effect, Raised, ThreadException)


def _list_of(kind: type[_Part], documents: Iterable[Mapping[str, Any]] | None) -> list[_Part]:
    """Read the items of a list. What a server does not tell is empty; what this version does not know is left out."""
    blank: dict[str, Any] = {"int": 0, "str": "", "str | None": None, "bool | None": None}
    return [kind(**{f.name: d.get(f.name, blank[str(f.type)]) for f in fields(kind)}) for d in documents or []]


@dataclass(frozen=True)
class Result:
    """What became of a program. A program that fails is a result like any other."""

    id: str
    status: str
    """One of Status, or a word that a newer server knows."""
    headline: str
    error: str | None
    """Why the program was not left to end in its own way; None when it was."""
    returncode: int | None
    signal: str | None
    limits_hit: list[str]
    stdout: str
    stderr: str
    stdout_truncated: bool
    stderr_truncated: bool
    exception: dict[str, Any] | None
    summary: dict[str, Any] | None
    usage: dict[str, int]
    trace: dict[str, Any] | None
    """The execution-trace/1 document."""
    effects: list[Effect]
    """Files, sockets and other programs that the program reached for, in order: the first 50 of each kind."""
    exceptions: list[Raised]
    """The first 50 and the last 50 exceptions that were raised, caught or not."""
    thread_exceptions: list[ThreadException]
    """The exceptions that ended threads, the first 20."""
    raw: dict[str, Any] = field(repr=False)
    """The whole Result document, with keys that this version does not know."""

    @classmethod
    def from_document(cls, d: dict[str, Any]) -> Result:
        """Read a Result document."""
        status = str(d["status"])
        try:
            status = Status(status)
        except ValueError:
            pass  # A newer server's word is passed on as it is.
        summary = d.get("summary") or {}
        return cls(
            effects=_list_of(Effect, d.get("effects")), exceptions=_list_of(Raised, summary.get("exceptions")),
            thread_exceptions=_list_of(ThreadException, summary.get("thread_exceptions")),
            id=d["id"], status=status, headline=d.get("headline", ""), error=d.get("error"), returncode=d.get("returncode"),
            signal=d.get("signal"), limits_hit=list(d.get("limits_hit") or []), stdout=d.get("stdout", ""), stderr=d.get("stderr", ""),
            stdout_truncated=bool(d.get("stdout_truncated")), stderr_truncated=bool(d.get("stderr_truncated")),
            exception=d.get("exception"), summary=d.get("summary"), usage=dict(d.get("usage") or {}), trace=d.get("trace"), raw=d,
        )

    @property
    def ok(self) -> bool:
        """Whether the program ended with exit code 0."""
        return self.status == Status.OK

    @property
    def timed_out(self) -> bool:
        """Whether the program was stopped at a time limit."""
        return self.status == Status.TIME_LIMIT

    def raise_for_status(self) -> Result:
        """Raise FailedRun when the fleet could not run the job, else return self. A failing program raises nothing."""
        if self.status in (Status.REJECTED, Status.SYSTEM_ERROR):
            raise FailedRun(self)
        return self


@dataclass(frozen=True)
class Trace:
    """Where a job stands. ``result`` is there once it has ended."""

    id: str
    state: str
    """queued, running, finished, canceled or dead."""
    status: str | None
    result: Result | None
    raw: dict[str, Any] = field(repr=False)

    @classmethod
    def from_document(cls, d: dict[str, Any]) -> Trace:
        """Read a TraceDocument."""
        found = d.get("result")
        return cls(id=d["id"], state=d["state"], status=d.get("status"), result=Result.from_document(found) if found else None, raw=d)

    @property
    def ended(self) -> bool:
        """Whether the state is final."""
        return self.state in ("finished", "canceled", "dead")


@dataclass(frozen=True)
class Event:
    """One step of a job: queued, started or finished."""

    name: str
    id: str
    state: str
    status: str | None
    event_id: str = ""


@dataclass(frozen=True)
class MapItem:
    """The outcome of one job of ``map``: a result, or the error that kept it from having one."""

    index: int
    result: Result | None = None
    error: TracefleetError | None = None
