"""The documents of the API as Python sees them."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict, Union

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
    retention_s: int


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
        return cls(
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
