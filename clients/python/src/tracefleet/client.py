"""The client for code without asyncio."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, TypeVar, Union

from . import _flow
from ._address import from_environment, parse
from ._events import EventLog, Refused
from ._flow import Pause, Request, Response, Settings
from ._sync import SyncTransport
from .errors import ConfigError, TracefleetError, TraceTimeout, TransportError
from .models import Code, Event, Handle, JobOptions, Limits, MapItem, Result, Trace, TraceOptions

T = TypeVar("T")
JobLike = Union[Code, tuple[Code, JobOptions]]
"""A program, or a program and the options of its submission."""


class Transport(Protocol):
    """What sends requests for a TraceClient."""

    def send(self, request: Request) -> Response:
        """Send one request and return its answer, or raise a TransportError."""

    def stream(self, request: Request) -> Iterator[str]:
        """Send one request and yield the lines of its answer."""

    def close(self) -> None:
        """Free what is held."""


class TraceClient:
    """Submits programs to a Tracefleet and reads what they did. It may be shared by threads.

    ``timeout`` is in seconds and bounds a whole operation, retries included, unless the operation is given its own.
    """

    def __init__(
        self, base_url: str | None = None, *, token: str | None = None, timeout: float = 60.0, max_retries: int = 4,
        cafile: str | None = None, transport: Transport | None = None,
    ) -> None:
        if timeout <= 0 or max_retries < 0:
            raise ConfigError("timeout must be more than 0, max_retries at least 0")
        self._settings = Settings(timeout, max_retries, time.monotonic)
        self._transport: Transport = transport or SyncTransport(parse(base_url, token, cafile))

    @classmethod
    def from_env(cls) -> TraceClient:
        """Return a client for what TRACEFLEET_URL and TRACEFLEET_TOKEN say."""
        url, token = from_environment()
        return cls(url, token=token)

    def submit(
        self, code: Code, *, stdin: str = "", args: Sequence[str] = (), limits: Limits | None = None, trace: TraceOptions | None = None,
        id: str | None = None, name: str = "", labels: Mapping[str, str] | None = None, queue: str = "interactive", tenant: str = "",
        entrypoint: str = "", retention_s: int | None = None, callback_url: str | None = None, traceparent: str | None = None,
    ) -> Handle:
        """Submit a program and return at once. The same id with the same input gives the same job."""
        job = _flow.document(
            code, stdin=stdin, args=args, limits=limits, trace=trace, id=id, name=name, labels=labels, queue=queue, tenant=tenant,
            entrypoint=entrypoint, retention_s=retention_s, callback_url=callback_url,
        )
        return self._run(_flow.submit(self._settings, job, traceparent))

    def get(self, id: str) -> Trace:
        """Return where a job stands, with its result when it has ended."""
        return self._run(_flow.get(self._settings, id))

    def wait(self, id: str, *, timeout: float | None = None) -> Result:
        """Return the result of a job as soon as there is one. TraceTimeout keeps the id; Unavailable means that the fleet was away last."""
        return self._run(_flow.wait(self._settings, id, self._deadline(timeout)))

    def trace(
        self, code: Code, *, stdin: str = "", args: Sequence[str] = (), limits: Limits | None = None, trace: TraceOptions | None = None,
        id: str | None = None, name: str = "", labels: Mapping[str, str] | None = None, queue: str = "interactive", tenant: str = "",
        entrypoint: str = "", retention_s: int | None = None, traceparent: str | None = None, timeout: float | None = None,
        cancel_on_timeout: bool = True,
    ) -> Result:
        """Submit a program and return its result. When the time is over the job is canceled."""
        job = _flow.document(
            code, stdin=stdin, args=args, limits=limits, trace=trace, id=id, name=name, labels=labels, queue=queue, tenant=tenant,
            entrypoint=entrypoint, retention_s=retention_s, callback_url=None,
        )
        try:
            return self._run(_flow.trace(self._settings, job, traceparent, self._deadline(timeout)))
        except (TraceTimeout, KeyboardInterrupt):
            if cancel_on_timeout:
                self._give_up(job["id"])
            raise

    def map(self, jobs: Iterable[JobLike], *, concurrency: int = 8) -> Iterator[MapItem]:
        """Trace many programs, some at a time; outcomes come as they are ready. ``jobs`` is read as far as needed."""
        if concurrency < 1:
            raise ConfigError("concurrency must be at least 1")
        source = enumerate(jobs)
        with concurrent.futures.ThreadPoolExecutor(concurrency) as pool:
            running: set[concurrent.futures.Future[MapItem]] = set()
            try:
                while True:
                    while len(running) < concurrency and (item := next(source, None)) is not None:
                        running.add(pool.submit(self._map_one, *item))
                    if not running:
                        return
                    done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            finally:
                for future in running:
                    future.cancel()

    def cancel(self, id: str) -> None:
        """Cancel a job, queued or running. One that has ended stays as it is."""
        self._run(_flow.cancel(self._settings, id))

    def events(self, id: str) -> Iterator[Event]:
        """Yield what happens to a job until it has ended. A connection that breaks is taken up again."""
        log = EventLog(self._settings, id)
        while True:
            broken: TransportError | None = None
            try:
                for line in self._transport.stream(log.request()):
                    if event := log.take(line):
                        yield event
                    if log.over:
                        return
            except Refused as err:
                raise _flow.refusal(err.response) from None
            except TransportError as err:
                broken = err
            time.sleep(log.broken(broken))

    def execra(self, id: str) -> dict[str, Any]:
        """Return the result of a job in the form of Execra's tracer."""
        found: dict[str, Any] = self._run(_flow.plain(self._settings, _flow.path_of(id, format="execra")))
        return found

    def limits(self) -> dict[str, Any]:
        """Return what a job may ask for."""
        found: dict[str, Any] = self._run(_flow.plain(self._settings, _flow.PREFIX + "/limits"))
        return found

    def close(self) -> None:
        """Close idle connections."""
        self._transport.close()

    def __enter__(self) -> TraceClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _deadline(self, timeout: float | None) -> float:
        return time.monotonic() + (self._settings.timeout if timeout is None else timeout)

    def _map_one(self, index: int, job: JobLike) -> MapItem:
        code, options = job if isinstance(job, tuple) else (job, JobOptions())
        try:
            return MapItem(index, result=self.trace(code, **options))
        except TracefleetError as err:
            return MapItem(index, error=err)

    def _give_up(self, id: str) -> None:
        """Cancel a job that nobody waits for any more, without another error."""
        try:
            self._run(_flow.cancel(Settings(5.0, 0, time.monotonic), id))
        except TracefleetError:
            pass  # It ends at its own limits.

    def _run(self, flow: _flow.Flow[T]) -> T:
        """Drive a flow."""
        try:
            step = next(flow)
            while True:
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                    step = next(flow)
                    continue
                try:
                    response = self._transport.send(step)
                except TransportError as err:
                    step = flow.throw(err)
                else:
                    step = flow.send(response)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            flow.close()
