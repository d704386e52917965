"""What can go wrong. Every error of this package is a TracefleetError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class TracefleetError(Exception):
    """The base of every error of this package."""


class ConfigError(TracefleetError, ValueError):
    """The client was set up or called in a way that cannot work."""


class TransportError(TracefleetError):
    """No answer came. ``retryable`` tells whether the request can be sent again without harm."""

    def __init__(self, message: str, retryable: bool = True) -> None:
        super().__init__(message, retryable)
        self.retryable = retryable

    def __str__(self) -> str:
        return str(self.args[0])


class ConnectFailed(TransportError):
    """There is nobody at the address, so nothing was sent."""


class TraceTimeout(TransportError, TimeoutError):
    """The time is over. ``id`` is the job that goes on running, or None when none was submitted."""

    def __init__(self, message: str, id: str | None = None) -> None:
        super().__init__(message, True)
        self.id = id

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (str(self), self.id))


class ApiError(TracefleetError):
    """The server refused the request, with a problem document (RFC 9457)."""

    def __init__(self, status: int, problem: Mapping[str, Any] | None = None, retry_after: float | None = None) -> None:
        problem = dict(problem or {})
        super().__init__(status, problem, retry_after)
        self.status = status
        self.type = str(problem.get("type", ""))
        self.title = str(problem.get("title", f"HTTP {status}"))
        self.detail = str(problem.get("detail", ""))
        self.errors: list[dict[str, str]] = list(problem.get("errors") or [])
        self.retry_after = retry_after
        self.request_id = str(problem.get("request_id", ""))

    def __str__(self) -> str:
        text = f"{self.title}: {self.detail}" if self.detail else self.title
        faults = "; ".join(f"{e.get('location', '')}: {e.get('message', '')}" for e in self.errors)
        if faults:
            text += f" [{faults}]"
        return f"{text} ({self.request_id})" if self.request_id else text


class InvalidJob(ApiError):
    """The job must not be run as it is; ``errors`` names each field."""


class IdReused(InvalidJob):
    """The id belongs to a job with other input."""


class AuthError(ApiError):
    """There is no token, or it is not known."""


class Forbidden(ApiError):
    """The token's role does not allow it."""


class NotFound(ApiError):
    """There is no such job, or its retention is over, or it belongs to another tenant."""


class RateLimited(ApiError):
    """Too many requests, or the queue is full. ``retry_after`` is in seconds."""


class Unavailable(ApiError):
    """The fleet cannot be reached at the moment."""


class ServerError(ApiError):
    """The server has a fault; ``request_id`` names it in its log."""


def from_answer(status: int, problem: Mapping[str, Any] | None, retry_after: float | None) -> ApiError:
    """Choose the class for an answer."""
    kind = str((problem or {}).get("type", ""))
    chosen: type[ApiError] = ApiError
    if kind.endswith(":id-reused"):
        chosen = IdReused
    elif status in (400, 413, 415, 422):
        chosen = InvalidJob
    elif status == 401:
        chosen = AuthError
    elif status == 403:
        chosen = Forbidden
    elif status in (404, 410):
        chosen = NotFound
    elif status == 429:
        chosen = RateLimited
    elif status in (502, 503, 504):
        chosen = Unavailable
    elif status >= 500:
        chosen = ServerError
    return chosen(status, problem, retry_after)
