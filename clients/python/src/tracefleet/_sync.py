"""Requests over http.client, with a pool of connections."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.request import getproxies, proxy_bypass

from ._address import IDLE, MOST_IDLE, Address, unpack
from ._events import Refused
from ._flow import MAX_BODY, Dropped, Request, Response
from ._timed import TimedSocket
from .errors import ConnectFailed, TraceTimeout, TransportError


class SyncTransport:
    """Sends requests. It is safe for use by several threads, and starts afresh in a forked process."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []
        self._pid = os.getpid()

    def send(self, request: Request) -> Response:
        """Send one request and return its answer."""
        deadline = time.monotonic() + request.timeout
        connection, reused = self._take(deadline)
        while True:
            try:
                return self._exchange(connection, request, deadline)
            except Dropped as err:
                connection.close()
                if not reused:
                    raise TransportError(f"the connection broke: {err}") from None
            except BaseException:
                connection.close()
                raise
            # The server had closed an idle connection; a fresh one tells whether it is there.
            connection, reused = self._connect(deadline), False

    def stream(self, request: Request) -> Iterator[str]:
        """Send one request and yield the lines of its answer. A silence of ``request.timeout`` ends it."""
        connection = self._connect(time.monotonic() + request.timeout)
        try:
            answer = self._start(connection, request, "text/event-stream")
            if answer.status == 204:
                return
            if answer.status != 200:
                raise Refused(_response(answer, answer.read(1 << 20)))
            while True:
                _allow(connection, time.monotonic() + request.timeout)
                line = answer.readline(64 << 10)
                if not line:
                    return
                yield line.decode("utf-8", "replace").rstrip("\r\n")
        except (TimeoutError, socket.timeout):
            raise TraceTimeout("the stream is silent") from None
        except (OSError, http.client.HTTPException) as err:
            raise TransportError(f"the connection broke: {err}") from None
        finally:
            connection.close()

    def close(self) -> None:
        """Close what is idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _take(self, deadline: float) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            if self._pid != os.getpid():  # The sockets belong to the parent.
                self._pid, self._idle = os.getpid(), []
            while self._idle:
                since, connection = self._idle.pop()
                if time.monotonic() - since < IDLE:
                    return connection, True
                connection.close()
        return self._connect(deadline), False

    def _connect(self, deadline: float) -> http.client.HTTPConnection:
        a = self._address
        timeout = max(0.01, deadline - time.monotonic())
        host, port, tunnel = a.host, a.port, False
        proxy = getproxies().get("https" if a.secure else "http")
        if proxy and not proxy_bypass(a.host):
            host, _, text = proxy.split("://", 1)[-1].rstrip("/").rpartition("@")[2].partition(":")
            port, tunnel = int(text or 80), True
        connection: http.client.HTTPConnection
        if a.secure:
            connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=a.context)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=timeout)
        if tunnel:
            connection.set_tunnel(a.host, a.port)
        try:
            connection.connect()
        except (TimeoutError, socket.timeout):
            raise TraceTimeout(f"{a.host}:{a.port} does not answer") from None
        except OSError as err:
            raise ConnectFailed(f"cannot connect to {a.host}:{a.port}: {err.strerror or err}") from None
        connection.sock = TimedSocket(connection.sock, deadline)
        return connection

    def _start(self, connection: http.client.HTTPConnection, request: Request, accept: str) -> http.client.HTTPResponse:
        headers = self._address.headers(request.headers, accept)
        connection.putrequest(request.method, self._address.base + request.path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if request.body is not None:
            connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body)
        return connection.getresponse()

    def _exchange(self, connection: http.client.HTTPConnection, request: Request, deadline: float) -> Response:
        _allow(connection, deadline)
        try:
            answer = self._start(connection, request, "application/json")
            body = answer.read(MAX_BODY + 1)
            if answer.length and len(body) <= MAX_BODY:
                raise http.client.IncompleteRead(body, answer.length)  # read(n) itself does not tell.
        except (TimeoutError, socket.timeout):
            raise TraceTimeout("no answer in time") from None
        except (OSError, http.client.HTTPException) as err:
            raise Dropped(str(err) or type(err).__name__) from None
        if len(body) > MAX_BODY:
            raise TransportError("the answer is too large", False)
        response = _response(answer, body)
        if answer.will_close or not answer.isclosed():
            connection.close()
        else:
            self._keep(connection)
        return response

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        """Put a connection back, and close those that nobody has used for long."""
        now = time.monotonic()
        with self._lock:
            kept = [item for item in self._idle if now - item[0] < IDLE][-(MOST_IDLE - 1) :]
            old = [item[1] for item in self._idle if item not in kept]
            self._idle = [*kept, (now, connection)]
        for other in old:
            other.close()


def _allow(connection: http.client.HTTPConnection, deadline: float) -> None:
    """Give a connection a new deadline."""
    sock: Any = connection.sock  # A TimedSocket, which http.client does not know of.
    sock.deadline = deadline


def _response(answer: http.client.HTTPResponse, body: bytes) -> Response:
    headers = {name.lower(): value for name, value in answer.getheaders()}
    return Response(answer.status, headers, unpack(body, headers.get("content-encoding", ""), MAX_BODY))
