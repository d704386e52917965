"""The client for asyncio: the same names, awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, TypeVar

from . import _flow
from ._address import from_environment, parse
from ._async import AsyncTransport
from ._events import EventLog, Refused
from ._flow import Pause, Request, Response, Settings
from .client import JobLike
from .errors import ConfigError, TracefleetError, TraceTimeout, TransportError
from .models import Code, Event, Handle, JobOptions, Limits, MapItem, Result, Trace, TraceOptions

T = TypeVar("T")
_PARTING = 0.25
"""Seconds that a cancelled caller is held up so that its job is canceled too."""


class AsyncTransportLike(Protocol):
    """What sends requests for an AsyncTraceClient."""

    async def send(self, request: Request) -> Response:
        """Send one request and return its answer, or raise a TransportError."""

    def stream(self, request: Request) -> AsyncIterator[str]:
        """Send one request and yield the lines of its answer."""

    async def aclose(self) -> None:
        """Free what is held."""


class AsyncTraceClient:
    """Submits programs to a Tracefleet and reads what they did, on the running event loop and no threads.

    ``timeout`` is in seconds and bounds a whole operation, retries included, unless the operation is given its own.
    """

    def __init__(
        self, base_url: str | None = None, *, token: str | None = None, timeout: float = 60.0, max_retries: int = 4,
        cafile: str | None = None, transport: AsyncTransportLike | None = None,
    ) -> None:
        if timeout <= 0 or max_retries < 0:
            raise ConfigError("timeout must be more than 0, max_retries at least 0")
        self._settings = Settings(timeout, max_retries, time.monotonic)
        self._transport: AsyncTransportLike = transport or AsyncTransport(parse(base_url, token, cafile))
        self._chores: set[asyncio.Task[None]] = set()

    @classmethod
    def from_env(cls) -> AsyncTraceClient:
        """Return a client for what TRACEFLEET_URL and TRACEFLEET_TOKEN say."""
        url, token = from_environment()
        return cls(url, token=token)

    async def submit(
        self, code: Code, *, stdin: str = "", args: Sequence[str] = (), limits: Limits | None = None, trace: TraceOptions | None = None,
        id: str | None = None, name: str = "", labels: Mapping[str, str] | None = None, queue: str = "interactive", tenant: str = "",
        entrypoint: str = "", retention_s: int | None = None, callback_url: str | None = None, traceparent: str | None = None,
    ) -> Handle:
        """Submit a program and return at once. The same id with the same input gives the same job."""
        job = _flow.document(
            code, stdin=stdin, args=args, limits=limits, trace=trace, id=id, name=name, labels=labels, queue=queue, tenant=tenant,
            entrypoint=entrypoint, retention_s=retention_s, callback_url=callback_url,
        )
        return await self._run(_flow.submit(self._settings, job, traceparent))

    async def get(self, id: str) -> Trace:
        """Return where a job stands, with its result when it has ended."""
        return await self._run(_flow.get(self._settings, id))

    async def wait(self, id: str, *, timeout: float | None = None) -> Result:
        """Return the result of a job as soon as there is one. TraceTimeout keeps the id; Unavailable means that the fleet was away last."""
        return await self._run(_flow.wait(self._settings, id, self._deadline(timeout)))

    async def trace(
        self, code: Code, *, stdin: str = "", args: Sequence[str] = (), limits: Limits | None = None, trace: TraceOptions | None = None,
        id: str | None = None, name: str = "", labels: Mapping[str, str] | None = None, queue: str = "interactive", tenant: str = "",
        entrypoint: str = "", retention_s: int | None = None, traceparent: str | None = None, timeout: float | None = None,
        cancel_on_timeout: bool = True,
    ) -> Result:
        """Submit a program and return its result. When the time is over, or the caller is cancelled, the job is canceled."""
        job = _flow.document(
            code, stdin=stdin, args=args, limits=limits, trace=trace, id=id, name=name, labels=labels, queue=queue, tenant=tenant,
            entrypoint=entrypoint, retention_s=retention_s, callback_url=None,
        )
        try:
            return await self._run(_flow.trace(self._settings, job, traceparent, self._deadline(timeout)))
        except TraceTimeout:
            if cancel_on_timeout:
                await self._give_up(job["id"])
            raise
        except asyncio.CancelledError:
            if cancel_on_timeout:
                # The caller is not held up for long: aclose waits for the rest. A loop that ends now has no later.
                chore = asyncio.get_running_loop().create_task(self._give_up(job["id"]))
                self._chores.add(chore)
                chore.add_done_callback(self._chores.discard)
                await asyncio.wait({chore}, timeout=_PARTING)
            raise

    async def map(self, jobs: Iterable[JobLike], *, concurrency: int = 8) -> AsyncIterator[MapItem]:
        """Trace many programs, some at a time; outcomes come as they are ready. ``jobs`` is read as far as needed."""
        if concurrency < 1:
            raise ConfigError("concurrency must be at least 1")
        source = enumerate(jobs)
        running: set[asyncio.Task[MapItem]] = set()
        try:
            while True:
                while len(running) < concurrency and (item := next(source, None)) is not None:
                    running.add(asyncio.ensure_future(self._map_one(*item)))
                if not running:
                    return
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    yield task.result()
        finally:
            for task in running:
                task.cancel()

    async def cancel(self, id: str) -> None:
        """Cancel a job, queued or running. One that has ended stays as it is."""
        await self._run(_flow.cancel(self._settings, id))

    async def events(self, id: str) -> AsyncIterator[Event]:
        """Yield what happens to a job until it has ended. A connection that breaks is taken up again."""
        log = EventLog(self._settings, id)
        while True:
            broken: TransportError | None = None
            try:
                async for line in self._transport.stream(log.request()):
                    if event := log.take(line):
                        yield event
                    if log.over:
                        return
            except Refused as err:
                raise _flow.refusal(err.response) from None
            except TransportError as err:
                broken = err
            await asyncio.sleep(log.broken(broken))

    async def execra(self, id: str) -> dict[str, Any]:
        """Return the result of a job in the form of Execra's tracer."""
        found: dict[str, Any] = await self._run(_flow.plain(self._settings, _flow.path_of(id, format="execra")))
        return found

    async def limits(self) -> dict[str, Any]:
        """Return what a job may ask for."""
        found: dict[str, Any] = await self._run(_flow.plain(self._settings, _flow.PREFIX + "/limits"))
        return found

    async def aclose(self) -> None:
        """Finish what is under way and close idle connections."""
        loop = asyncio.get_running_loop()
        if own := [chore for chore in self._chores if chore.get_loop() is loop]:
            await asyncio.wait(own)
        await self._transport.aclose()

    async def __aenter__(self) -> AsyncTraceClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        await self.aclose()

    def _deadline(self, timeout: float | None) -> float:
        return time.monotonic() + (self._settings.timeout if timeout is None else timeout)

    async def _map_one(self, index: int, job: JobLike) -> MapItem:
        code, options = job if isinstance(job, tuple) else (job, JobOptions())
        try:
            return MapItem(index, result=await self.trace(code, **options))
        except TracefleetError as err:
            return MapItem(index, error=err)

    async def _give_up(self, id: str) -> None:
        """Cancel a job that nobody waits for any more, without another error."""
        try:
            await self._run(_flow.cancel(Settings(5.0, 0, time.monotonic), id))
        except TracefleetError:
            pass  # It ends at its own limits.

    async def _run(self, flow: _flow.Flow[T]) -> T:
        """Drive a flow."""
        try:
            step = next(flow)
            while True:
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    step = next(flow)
                    continue
                try:
                    response = await self._transport.send(step)
                except TransportError as err:
                    step = flow.throw(err)
                else:
                    step = flow.send(response)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            flow.close()
