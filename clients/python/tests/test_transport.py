"""Both transports against a server that misbehaves."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import threading
import unittest
import warnings
from collections.abc import Callable, Iterator

from tracefleet import AsyncTraceClient, TraceClient, errors, execra

RESULT = json.dumps({"id": "a", "state": "finished", "status": "ok", "result": {"id": "a", "status": "ok", "stdout": "x", "returncode": 0}}).encode()
RUNNING = json.dumps({"id": "a", "state": "running", "status": None}).encode()
Answer = Callable[[socket.socket, int], bool]
"""Answers the request with this number; False closes the connection."""


def ok(body: bytes, extra: str = "") -> bytes:
    """Return a whole answer."""
    return f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Server:
    """Reads requests and answers them as it is told."""

    def __init__(self, answer: Answer, port: int = 0) -> None:
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.answer = answer
        self.ended = threading.Event()
        self.connections: list[socket.socket] = []
        self.requests: list[str] = []
        self.threads = [threading.Thread(target=self.accept, daemon=True)]
        self.threads[0].start()

    def accept(self) -> None:
        """Take connections until the end."""
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            if self.ended.is_set():
                connection.close()
                return
            self.connections.append(connection)
            self.threads.append(threading.Thread(target=self.serve, args=(connection,), daemon=True))
            self.threads[-1].start()

    def serve(self, connection: socket.socket) -> None:
        """Answer the requests of one connection."""
        with connection, connection.makefile("rb") as lines, contextlib.suppress(OSError):
            while line := lines.readline():
                length = 0
                while (header := lines.readline()) not in (b"\r\n", b""):
                    if header.lower().startswith(b"content-length:"):
                        length = int(header.split(b":")[1])
                lines.read(length)
                self.requests.append(line.decode().split()[0])
                if not self.answer(connection, len(self.requests)):
                    return

    def close(self) -> None:
        """End everything."""
        self.ended.set()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5):
            pass  # It wakes accept, which a closed listener does not everywhere.
        self.listener.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(60)


def full(connection: socket.socket, _: int) -> bool:
    """Answer well."""
    connection.sendall(ok(RESULT))
    return True


def cut_off(connection: socket.socket, number: int) -> bool:
    """Break off in the first answer."""
    if number == 1:
        connection.sendall(ok(RESULT)[:-20])
        return False
    return full(connection, number)


def old(connection: socket.socket, _: int) -> bool:
    """Answer as HTTP/1.0 does: the end of the connection is the end of the body."""
    connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + RESULT)
    return False


def closing(connection: socket.socket, _: int) -> bool:
    """Say that the connection is over."""
    connection.sendall(ok(RESULT, "Connection: Close\r\n"))
    return False


def trailers(connection: socket.socket, _: int) -> bool:
    """Send chunks, with a header behind the last."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for part in (RESULT[:7], RESULT[7:]):
        connection.sendall(f"{len(part):x};ext=1\r\n".encode() + part + b"\r\n")
    connection.sendall(b"0\r\nX-Sum: 1\r\n\r\n")
    return True


def limited(connection: socket.socket, number: int) -> bool:
    """Ask for a moment first."""
    if number == 1:
        connection.sendall(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0.1\r\nContent-Length: 0\r\n\r\n")
        return True
    return full(connection, number)


def sync_get(url: str, timeout: float = 60.0) -> list[str]:
    """Read a job twice over one client."""
    with TraceClient(url, timeout=timeout) as client:
        return [found.result.stdout for found in (client.get("a"), client.get("a")) if found.result]


def async_get(url: str, timeout: float = 60.0) -> list[str]:
    """Do the same with asyncio."""

    async def main() -> list[str]:
        async with AsyncTraceClient(url, timeout=timeout) as client:
            return [found.result.stdout for found in (await client.get("a"), await client.get("a")) if found.result]

    return asyncio.run(main())


class TransportTest(unittest.TestCase):
    """What comes over the wire."""

    def start(self, answer: Answer, port: int = 0) -> Server:
        """Start a server that ends with the test."""
        server = Server(answer, port)
        self.addCleanup(server.close)
        return server

    def both(self) -> Iterator[Callable[..., list[str]]]:
        """Yield both ways to read a job."""
        for get in (sync_get, async_get):
            with self.subTest(get.__name__):
                yield get

    def test_forms_of_answers(self) -> None:
        """Every way to send an answer is understood, and none disturbs the next one."""
        for answer, connections in ((full, 1), (old, 2), (closing, 2), (trailers, 1), (cut_off, 2), (limited, 1)):
            for get in self.both():
                server = self.start(answer)
                self.assertEqual(get(server.url), ["x", "x"], answer.__name__)
                self.assertEqual(len(server.connections), connections, answer.__name__)

    def test_slow_answer(self) -> None:
        """The time is that of the whole answer, however steadily it comes."""
        for start in (b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"):
            for get in self.both():
                over = threading.Event()

                def drip(connection: socket.socket, _: int, start: bytes = start, over: threading.Event = over) -> bool:
                    connection.sendall(start)
                    while not over.wait(0.05):  # It would go on until the client leaves.
                        connection.sendall(b"x: 1\r\n")
                    return False

                server = self.start(drip)
                self.addCleanup(over.set)
                with self.assertRaises(errors.TraceTimeout):
                    get(server.url, 0.5)
                over.set()

    def test_somebody_else_answers(self) -> None:
        """What is no answer of the API is said to be none; the tracer of Execra does not raise."""
        for body in (b"[]", b"{}", b"null", b"<html>", b'{"id":"a","state":"finished","result":{"id":"a"}}'):

            def answer(connection: socket.socket, _: int, body: bytes = body) -> bool:
                connection.sendall(ok(body))
                return True

            for get in self.both():
                with self.assertRaises(errors.ServerError):
                    get(self.start(answer).url)
            with TraceClient(self.start(answer).url) as client:
                found = execra.SandboxedCodeTracer(client, mode=execra.SANDBOXED).trace("1")
                self.assertIn("fault", found["error"])

    def test_server_is_started_anew(self) -> None:
        """A wait goes on when the server comes back, however many tries that takes; without a server at first it does not."""
        leave = threading.Event()

        def first(connection: socket.socket, number: int) -> bool:
            if number == 1:
                connection.sendall(ok(RUNNING))
                return True
            leave.set()
            return False

        server = self.start(first)
        found: list[str] = []

        def wait() -> None:
            with TraceClient(server.url, timeout=120.0, max_retries=1) as client:
                found.append(client.wait("a").stdout)

        thread = threading.Thread(target=wait)
        thread.start()
        self.assertTrue(leave.wait(60))
        server.close()
        with self.assertRaises(errors.ConnectFailed), TraceClient(server.url, max_retries=1) as client:
            client.wait("a")
        self.start(full, server.port)
        thread.join(120)
        self.assertEqual(found, ["x"])

    def test_idle_connections_do_not_pile_up(self) -> None:
        """After many requests at once no more connections are kept than there were requests, and they are used again."""
        server = self.start(full)

        async def main() -> None:
            async with AsyncTraceClient(server.url) as client:
                for _ in range(3):
                    await asyncio.gather(*[client.get("a") for _ in range(40)])

        asyncio.run(main())
        self.assertLessEqual(len(server.connections), 40)
        self.assertEqual(len(server.requests), 120)

    def test_loop_that_ends(self) -> None:
        """A loop that ends in the middle of a trace cancels the job and leaves nothing behind."""
        asked = threading.Event()

        def answer(connection: socket.socket, number: int) -> bool:
            if number == 1:
                asked.set()
                return True  # No answer: the job goes on and on.
            return full(connection, number)

        server = self.start(answer)

        async def main() -> None:
            client = AsyncTraceClient(server.url)
            task = asyncio.create_task(client.trace("1"))
            while not asked.is_set():
                await asyncio.sleep(0.01)
            self.assertFalse(task.done())
            self.clients.append(client)

        self.clients: list[AsyncTraceClient] = []
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            asyncio.run(main())
            self.clients.clear()
            gc.collect()
        self.assertEqual(server.requests, ["POST", "DELETE"])
        self.assertEqual([str(w.message) for w in said if "never awaited" in str(w.message)], [])

    def test_slow_waits_end_in_time(self) -> None:
        """A wait that is over says which job it was for."""
        over = threading.Event()
        self.addCleanup(over.set)

        def hang(_: socket.socket, __: int) -> bool:
            over.wait(60)
            return False

        server = self.start(hang)
        with TraceClient(server.url) as client, self.assertRaises(errors.TraceTimeout) as caught:
            client.wait("a", timeout=0.3)
        self.assertEqual(caught.exception.id, "a")
        over.set()


if __name__ == "__main__":
    unittest.main()
