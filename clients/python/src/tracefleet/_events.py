"""The events of a job, over as many connections as it takes to hear them all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ._flow import Request, Response, Settings, backoff, path_of
from .errors import TransportError
from .models import Event

SILENCE = 60.0
"""Seconds without a line, be it a comment, after which a stream is given up; the server comments every 15."""


class Refused(Exception):
    """A stream was answered with something else."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


class EventLog:
    """What was heard of a job. Both clients ask for a stream, hand in its lines, and ask again until it is ``over``."""

    def __init__(self, settings: Settings, id: str) -> None:
        self.over = False
        self._path = path_of(id, "/events")
        self._max_retries = settings.max_retries
        self._failures = 0
        self._last = ""
        self._lines: list[str] = []

    def request(self) -> Request:
        """Return the request for a stream of what is missing."""
        self._lines = []
        headers = {"Last-Event-ID": self._last} if self._last else {}
        return Request("GET", self._path, headers=headers, timeout=SILENCE)

    def take(self, line: str) -> Event | None:
        """Take in a line of a stream, and return the event that it completes."""
        self._failures = 0  # Also by a comment, which only shows that the server is there.
        if line:
            self._lines.append(line)
            return None
        found, self._lines = parse(self._lines), []
        if found is None:
            return None
        self._last, name, data = found
        self.over = name == "finished"
        return Event(name, data["id"], data["state"], data.get("status"), self._last)

    def broken(self, err: TransportError | None) -> float:
        """Return the seconds to wait after a stream that ended too early, or raise ``err`` when there were too many in a row."""
        self._failures += 1
        if self._failures > self._max_retries:
            raise err or TransportError("the stream ends before the job does")
        return backoff(min(self._failures, 5))


def parse(lines: Sequence[str]) -> tuple[str, str, dict[str, Any]] | None:
    """Read one server-sent event: its id, name and data; None for a comment."""
    fields = {"id": "", "event": "", "data": ""}
    for line in lines:
        name, _, value = line.partition(":")
        if name in fields:
            fields[name] += value.removeprefix(" ")
    if not fields["data"]:
        return None
    return fields["id"], fields["event"], json.loads(fields["data"])
