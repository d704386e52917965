"""Requests over asyncio streams: an HTTP/1.1 client of its own, without threads."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from urllib.request import getproxies, proxy_bypass

from ._address import IDLE, MAX_HEADERS, MOST_IDLE, Address, unpack
from ._events import Refused
from ._flow import MAX_BODY, Dropped, Request, Response
from .errors import ConfigError, ConnectFailed, TraceTimeout, TransportError


class _Connection:
    """One connection of one event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.since = time.monotonic()

    def abort(self) -> None:
        """Close at once, so that the server notices."""
        self.writer.transport.abort()

    @property
    def usable(self) -> bool:
        return time.monotonic() - self.since < IDLE and not self.writer.is_closing() and not self.reader.at_eof()


class AsyncTransport:
    """Sends requests. Its connections belong to the running loop; under another loop, or in a forked process, it starts afresh."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: list[_Connection] = []
        self._owner: tuple[int, object] | None = None

    async def send(self, request: Request) -> Response:
        """Send one request and return its answer. A caller that is cancelled closes the connection."""
        try:
            return await asyncio.wait_for(self._send(request), request.timeout)
        except asyncio.TimeoutError:
            raise TraceTimeout("no answer in time") from None

    async def stream(self, request: Request) -> AsyncIterator[str]:
        """Send one request and yield the lines of its answer. A silence of ``request.timeout`` ends it."""
        connection = await self._connect()
        try:
            status, headers = await asyncio.wait_for(self._start(connection, request, "text/event-stream"), request.timeout)
            if status == 204:
                return
            if status != 200:
                raise Refused(Response(status, headers, await self._body(connection, headers)))
            rest = b""
            async for piece in self._pieces(connection, headers, request.timeout):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield line.decode("utf-8", "replace").rstrip("\r")
        except asyncio.TimeoutError:
            raise TraceTimeout("the stream is silent") from None
        except (OSError, EOFError, ValueError) as err:
            raise TransportError(f"the connection broke: {err}") from None
        finally:
            connection.abort()

    async def aclose(self) -> None:
        """Close what is idle."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.writer.close()
        for connection in idle:
            try:
                await connection.writer.wait_closed()
            except OSError:
                pass  # It was closed from the other side.
        await asyncio.sleep(0)  # What was aborted is freed in the next turn of the loop.

    async def _send(self, request: Request) -> Response:
        connection = self._take()
        if connection is not None:
            try:
                return await self._exchange(connection, request)
            except Dropped:
                pass  # The server had closed an idle connection; a fresh one tells whether it is there.
        try:
            return await self._exchange(await self._connect(), request)
        except Dropped as err:
            raise TransportError(f"the connection broke: {err}") from None

    def _take(self) -> _Connection | None:
        owner = (os.getpid(), asyncio.get_running_loop())
        if self._owner != owner:
            # What is there belongs to a loop that may be closed: it cannot even be closed properly.
            self._owner, self._idle = owner, []
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> _Connection:
        a = self._address
        if proxy := getproxies().get("https" if a.secure else "http"):
            if not proxy_bypass(a.host):
                raise ConfigError(f"the async client does not go through the proxy {proxy.rpartition('@')[2]}; set no_proxy, or give transport=")
        try:
            reader, writer = await asyncio.open_connection(
                a.host, a.port, ssl=a.context, server_hostname=a.host if a.secure else None, limit=MAX_HEADERS
            )
        except OSError as err:
            raise ConnectFailed(f"cannot connect to {a.host}:{a.port}: {err.strerror or err}") from None
        return _Connection(reader, writer)

    async def _exchange(self, connection: _Connection, request: Request) -> Response:
        done = False
        try:
            status, headers = await self._start(connection, request, "application/json")
            body = await self._body(connection, headers)
            done = True
        except (OSError, EOFError) as err:
            raise Dropped(str(err) or "it was closed") from None
        except (ValueError, asyncio.LimitOverrunError) as err:
            raise TransportError(f"the answer is not HTTP: {err}", False) from None
        finally:
            if not done:  # Also when the caller is cancelled: what comes later is nobody's answer.
                connection.abort()
        if headers["connection"] == "close":
            connection.abort()
        else:
            self._keep(connection)
        return Response(status, headers, unpack(body, headers.get("content-encoding", ""), MAX_BODY))

    def _keep(self, connection: _Connection) -> None:
        """Put a connection back, and close those that nobody has used for long."""
        connection.since = time.monotonic()
        kept = [other for other in self._idle if other.usable][-(MOST_IDLE - 1) :]
        for other in self._idle:
            if other not in kept:
                other.abort()
        self._idle = [*kept, connection]

    async def _start(self, connection: _Connection, request: Request, accept: str) -> tuple[int, dict[str, str]]:
        lines = [f"{request.method} {self._address.base}{request.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self._address.headers(request.headers, accept).items()]
        if request.body is not None:
            lines.append(f"Content-Length: {len(request.body)}")
        connection.writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + (request.body or b""))
        await connection.writer.drain()
        while True:
            head = (await connection.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            version, _, rest = head[0].partition(" ")
            if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
                raise ValueError("no status line")
            status = int(rest[:3])
            if status >= 200:
                break
        # What is not said is as HTTP has it: 1.1 keeps the connection open, 1.0 does not.
        headers = {"connection": "close" if version == "HTTP/1.0" else "keep-alive"}
        for line in head[1:-2]:
            name, colon, value = line.partition(":")
            if not colon:
                raise ValueError("a header without a colon")
            headers[name.strip().lower()] = value.strip()
        headers["connection"] = headers["connection"].lower()
        if "content-length" not in headers and "transfer-encoding" not in headers and status not in (204, 304):
            headers["connection"] = "close"  # The end of the body is the end of the connection.
        return status, headers

    async def _body(self, connection: _Connection, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked" or ("content-length" not in headers and headers["connection"] == "close"):
            pieces, size = [], 0
            async for piece in self._pieces(connection, headers, None):
                size += len(piece)
                if size > MAX_BODY:
                    raise TransportError("the answer is too large", False)
                pieces.append(piece)
            return b"".join(pieces)
        length = int(headers.get("content-length", "0"))
        if not 0 <= length <= MAX_BODY:
            raise TransportError("the answer is too large", False)
        return await connection.reader.readexactly(length)

    async def _pieces(self, connection: _Connection, headers: dict[str, str], timeout: float | None) -> AsyncIterator[bytes]:
        """Yield the chunks of a body; each may take ``timeout`` seconds."""
        if headers.get("transfer-encoding", "").lower() != "chunked":
            while piece := await asyncio.wait_for(connection.reader.read(64 << 10), timeout):
                yield piece
            return
        while True:
            size = int((await asyncio.wait_for(connection.reader.readuntil(b"\r\n"), timeout)).split(b";")[0], 16)
            if not 0 <= size <= MAX_BODY:
                raise ValueError("a chunk that is too large")
            if size == 0:
                while await asyncio.wait_for(connection.reader.readuntil(b"\r\n"), timeout) != b"\r\n":
                    pass  # Headers may follow the last chunk.
                return
            piece = await asyncio.wait_for(connection.reader.readexactly(size + 2), timeout)
            yield piece[:-2]
