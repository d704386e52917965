"""What the client does, apart from how bytes travel.

Each operation is a generator: it yields a Request or a Pause, gets the Response sent in (or a TransportError
thrown in), and returns its outcome. The sync and the async client drive the same generators.
"""

from __future__ import annotations

import json
import random
import re
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, Union
from urllib.parse import quote, urlencode

from . import errors
from .models import Code, Handle, Limits, Result, Trace, TraceOptions

PREFIX = "/api/v1"
LONGEST_POLL = 25.0
"""Seconds that one request waits; proxies often close a connection that is silent for longer."""
SLACK = 10.0
"""Seconds that an answer may take beyond the wait it was asked for."""
MAX_BODY = 256 << 20
RETRY_STATUSES = frozenset({429, 502, 503, 504})
ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}\Z")


@dataclass(frozen=True)
class Request:
    """One HTTP request. ``timeout`` bounds it as a whole, in seconds."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 60.0


@dataclass(frozen=True)
class Response:
    """One HTTP answer. The names of headers are lower case; the body is decompressed."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def document(self) -> Any:
        """Return the body as JSON."""
        try:
            return json.loads(self.body)
        except ValueError as err:
            raise errors.ServerError(self.status, {"title": "The answer is not JSON", "detail": str(err)}) from None

    @property
    def retry_after(self) -> float | None:
        """Return the seconds that the server asks to wait."""
        try:
            return max(0.0, float(self.headers.get("retry-after", "")))
        except ValueError:
            return None


class Dropped(Exception):
    """A connection ended before its answer, as an idle one may that the server has closed."""


@dataclass(frozen=True)
class Pause:
    """A wait before the next try."""

    seconds: float


T = TypeVar("T")
Flow = Generator[Union[Request, Pause], Response, T]


@dataclass(frozen=True)
class Settings:
    """What every flow needs to know."""

    timeout: float
    max_retries: int
    clock: Callable[[], float]


def send(s: Settings, deadline: float, request: Request, want: Sequence[int], patient: bool | None = False) -> Flow[Response]:
    """Send a request until it is answered with a wanted status, as often as is allowed and the deadline leaves time.

    Every request of this client can be repeated: submissions carry an id, the others change nothing twice. With ``patient`` it is
    repeated until the deadline, however often that is; with None as soon as anything has shown that a server is there, so that one
    which is started anew does not end a wait.
    """
    attempt = -1
    while True:
        attempt += 1
        left = deadline - s.clock()
        if left <= 0:
            raise errors.TraceTimeout("no answer in time")
        failure: errors.TracefleetError
        wait = backoff(min(attempt, 3) if patient else attempt)
        try:
            response = yield Request(request.method, request.path, request.body, request.headers, min(request.timeout, left))
        except errors.TransportError as err:
            failure = err
            if not err.retryable:
                raise
            if patient is None and not isinstance(err, (errors.ConnectFailed, errors.TraceTimeout)):
                patient = True
        else:
            if response.status in want:
                return response
            failure = refusal(response)
            if response.status not in RETRY_STATUSES:
                raise failure
            if response.retry_after is not None:
                # Whose tries are counted makes them last: the server names the soonest time that makes sense.
                wait = max(response.retry_after, 0.0 if patient is not False else min(8.0, 2.0**attempt))
            if patient is None:
                patient = True
        if (attempt >= s.max_retries and not (patient and s.max_retries)) or s.clock() + wait >= deadline:
            raise failure
        yield Pause(wait)


def backoff(attempt: int) -> float:
    """Return the seconds before another try: half at least of a time that doubles, at most 8 s."""
    return random.uniform(0.5, 1.0) * min(8.0, 0.25 * float(2**attempt))


def refusal(response: Response) -> errors.ApiError:
    """Return the error for an answer that is none."""
    problem: dict[str, Any] = {}
    if "json" in response.headers.get("content-type", ""):
        try:
            found = json.loads(response.body)
            problem = found if isinstance(found, dict) else {}
        except ValueError:
            pass  # A proxy's page; the status says enough.
    return errors.from_answer(response.status, problem, response.retry_after)


def path_of(id: str, rest: str = "", **query: str) -> str:
    """Return the path of a job."""
    if not ID.match(id):
        raise errors.ConfigError(f"not the id of a job: {id[:40]!r}")
    text = f"{PREFIX}/traces/{quote(id, safe='')}{rest}"
    return text + "?" + urlencode(query) if query else text


def document(
    code: Code, *, stdin: str, args: Sequence[str], limits: Limits | None, trace: TraceOptions | None, id: str | None,
    name: str, labels: Mapping[str, str] | None, queue: str, tenant: str, entrypoint: str, retention_s: int | None,
    callback_url: str | None,
) -> dict[str, Any]:
    """Return a Job document. It always has an id, so that sending it twice makes one job."""
    job: dict[str, Any] = {"id": id or str(uuid.uuid4())}
    if isinstance(code, str):
        job["code"] = code
    else:
        job["files"] = dict(code)
    optional = {
        "stdin": stdin, "args": list(args), "limits": dict(limits or {}), "trace": dict(trace or {}), "name": name,
        "labels": dict(labels or {}), "queue": queue, "tenant": tenant, "entrypoint": entrypoint, "retention_s": retention_s,
        "callback_url": callback_url,
    }
    job.update({key: value for key, value in optional.items() if value})
    return job


def encode(job: dict[str, Any]) -> bytes:
    """Write a job as JSON. Text with half of a surrogate pair cannot travel."""
    try:
        return json.dumps(job, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise errors.ConfigError("the job holds half of a surrogate pair, which is no text") from None
    except (TypeError, ValueError) as err:
        raise errors.ConfigError(f"the job cannot be written as JSON: {err}") from None


def submission(job: dict[str, Any], wait: float, traceparent: str | None) -> Request:
    """Return the request that submits a job and waits for it."""
    path = f"{PREFIX}/traces"
    if wait > 0:
        path += f"?wait={wait:.3f}"
    headers = {"Content-Type": "application/json"}
    if traceparent:
        headers["traceparent"] = traceparent
    return Request("POST", path, encode(job), headers, wait + SLACK)


def submit(s: Settings, job: dict[str, Any], traceparent: str | None) -> Flow[Handle]:
    """Submit a job."""
    response = yield from send(s, s.clock() + s.timeout, submission(job, 0, traceparent), (200, 202))
    found = trace_of(response)
    return Handle(found.id, found.state, response.headers.get("idempotent-replayed") != "true")


def get(s: Settings, id: str) -> Flow[Trace]:
    """Read where a job stands."""
    response = yield from send(s, s.clock() + s.timeout, Request("GET", path_of(id), timeout=s.timeout), (200,))
    return trace_of(response)


def trace_of(response: Response) -> Trace:
    """Read what a server says of a job."""
    found = response.document()
    try:
        return Trace.from_document(found)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise errors.ServerError(response.status, {"title": "The answer is not one of this API", "detail": "is the address that of the fleet?"}) from None


def wait(s: Settings, id: str, deadline: float, patient: bool | None = None) -> Flow[Result]:
    """Wait for the result of a job, in requests that each wait for a while."""
    while True:
        left = deadline - s.clock()
        if left <= 0:
            raise errors.TraceTimeout(f"job {id} has no result yet", id)
        poll = min(left, LONGEST_POLL)
        try:
            response = yield from send(s, deadline + 1, Request("GET", path_of(id, wait=f"{poll:.3f}"), timeout=poll + SLACK), (200,), patient)
        except errors.TraceTimeout:
            raise errors.TraceTimeout(f"job {id} has no result yet", id) from None
        patient = True
        found = trace_of(response)
        if found.result is not None:
            return found.result
        if poll < LONGEST_POLL:
            continue
        # A server that is stopping, or has too many who wait, answers at once.
        if s.clock() < deadline - left + 0.9 * poll:
            yield Pause(min(response.retry_after or 1.0, max(0.0, deadline - s.clock())))


def trace(s: Settings, job: dict[str, Any], traceparent: str | None, deadline: float) -> Flow[Result]:
    """Submit a job and wait for its result, in one request when that is enough."""
    left = deadline - s.clock()
    try:
        response = yield from send(s, deadline, submission(job, max(0.0, min(left, LONGEST_POLL)), traceparent), (200, 202), None)
    except errors.TraceTimeout as err:
        raise errors.TraceTimeout(str(err), job["id"]) from None
    found = trace_of(response)
    if found.result is not None:
        return found.result
    return (yield from wait(s, found.id, deadline, True))


def cancel(s: Settings, id: str) -> Flow[None]:
    """Cancel a job."""
    yield from send(s, s.clock() + s.timeout, Request("DELETE", path_of(id), timeout=s.timeout), (200, 202))


def plain(s: Settings, path: str) -> Flow[Any]:
    """Read a document."""
    response = yield from send(s, s.clock() + s.timeout, Request("GET", path, timeout=s.timeout), (200,))
    return response.document()
