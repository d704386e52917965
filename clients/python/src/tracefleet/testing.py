"""A transport without a network, for tests of code that uses this package."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Union

from ._flow import Request, Response
from .errors import TransportError

Answer = Union[Response, TransportError]


def json_response(document: Any, status: int = 200, **headers: str) -> Response:
    """Return an answer with a JSON body. Headers are given with _ for -."""
    found = {"content-type": "application/json" if status < 400 else "application/problem+json"}
    found.update({name.replace("_", "-").lower(): value for name, value in headers.items()})
    return Response(status, found, json.dumps(document).encode())


class FakeTransport:
    """Answers from a script: for each method and path (without its query) a list of answers, the last one over and over."""

    def __init__(self, script: Mapping[tuple[str, str], Sequence[Answer]]) -> None:
        self.script = {key: list(answers) for key, answers in script.items()}
        self.requests: list[Request] = []

    def send(self, request: Request) -> Response:
        """Take the next answer."""
        self.requests.append(request)
        answers = self.script.get((request.method, request.path.partition("?")[0]))
        if not answers:
            return json_response({"type": "urn:tracefleet:problem:not-found", "title": "Not found", "status": 404}, 404)
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, TransportError):
            raise answer
        return answer

    def stream(self, request: Request) -> Iterator[str]:
        """Yield the lines of the next answer."""
        yield from self.send(request).body.decode().splitlines()

    def close(self) -> None:
        """Do nothing."""


class AsyncFakeTransport:
    """The same for an AsyncTraceClient."""

    def __init__(self, script: Mapping[tuple[str, str], Sequence[Answer]]) -> None:
        self.inner = FakeTransport(script)

    @property
    def requests(self) -> list[Request]:
        """Return what was sent."""
        return self.inner.requests

    async def send(self, request: Request) -> Response:
        """Take the next answer."""
        return self.inner.send(request)

    async def stream(self, request: Request) -> AsyncIterator[str]:
        """Yield the lines of the next answer."""
        for line in self.inner.stream(request):
            yield line

    async def aclose(self) -> None:
        """Do nothing."""
