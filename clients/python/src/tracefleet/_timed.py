"""A socket on which everything together has one deadline, however slowly the other side goes."""

from __future__ import annotations

import io
import socket
import time
from typing import Any


class TimedSocket:
    """Stands in for a connected socket in http.client, and gives each operation what is left of the time."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self.deadline = deadline
        self._files = 0
        self._closed = False

    def _left(self) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time is over")
        self._sock.settimeout(left)

    def sendall(self, data: bytes) -> None:
        """Send everything in time. What the socket does with one time-out for the whole."""
        self._left()
        self._sock.sendall(data)

    def recv_into(self, buffer: Any) -> int:
        """Receive what is there."""
        self._left()
        return self._sock.recv_into(buffer)

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return a file to read from. The socket stays open until it is closed too."""
        self._files += 1
        return io.BufferedReader(_Raw(self))

    def file_closed(self) -> None:
        """Take note that a file of makefile was closed."""
        self._files -= 1
        if self._closed and self._files <= 0:
            self._sock.close()

    def close(self) -> None:
        """Close the socket, at once or after the last file."""
        self._closed = True
        if self._files <= 0:
            self._sock.close()


class _Raw(io.RawIOBase):
    """The reading side of a TimedSocket."""

    def __init__(self, owner: TimedSocket) -> None:
        self._owner = owner

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._owner.recv_into(buffer)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._owner.file_closed()
