"""The client over a fake transport."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import pickle
import time
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import tracefleet
from tracefleet import AsyncTraceClient, TraceClient, errors
from tracefleet._flow import Response
from tracefleet.testing import AsyncFakeTransport, FakeTransport, json_response

POST, GET = ("POST", "/api/v1/traces"), ("GET", "/api/v1/traces/a")


def document(state: str = "finished", **result: Any) -> dict[str, Any]:
    """Return a TraceDocument."""
    found: dict[str, Any] = {"id": "a", "state": state, "status": None}
    if state == "finished":
        found["result"] = {"id": "a", "status": "ok", "headline": "Finished normally", "stdout": "1\n", "returncode": 0, **result}
    return found


def problem(status: int, kind: str, **headers: str) -> Response:
    """Return a problem document."""
    body = {"type": "urn:tracefleet:problem:" + kind, "title": "Title", "detail": "Detail.", "status": status, "request_id": "R1"}
    return json_response({**body, "errors": [{"location": "body.x", "message": "unknown field"}]}, status, **headers)


class FlowTest(unittest.TestCase):
    """What requests are sent, and what becomes of the answers."""

    def setUp(self) -> None:
        """Make pauses instant."""
        self.pauses: list[float] = []
        patcher = mock.patch("time.sleep", self.pauses.append)
        patcher.start()
        self.addCleanup(patcher.stop)

    def client(self, script: dict[tuple[str, str], list[Any]], **options: Any) -> tuple[TraceClient, FakeTransport]:
        """Return a client and its transport."""
        transport = FakeTransport(script)
        return TraceClient(transport=transport, **options), transport

    def test_trace_in_one_request(self) -> None:
        """A quick program takes one request."""
        client, transport = self.client({POST: [json_response(document())]})
        result = client.trace("print(1)", stdin="x", limits={"wall_ms": 100}, traceparent="00-aa")
        self.assertTrue(result.ok)
        self.assertEqual((result.stdout, result.returncode, result.raw["id"]), ("1\n", 0, "a"))
        [request] = transport.requests
        sent = json.loads(request.body or b"")
        self.assertRegex(sent.pop("id"), r"^[0-9a-f-]{36}$")
        self.assertEqual(sent, {"code": "print(1)", "stdin": "x", "limits": {"wall_ms": 100}, "queue": "interactive"})
        self.assertEqual(request.headers["traceparent"], "00-aa")
        self.assertTrue(request.path.endswith("?wait=25.000"), request.path)

    def test_trace_goes_on_waiting(self) -> None:
        """A slow one is asked for again, by its id."""
        client, transport = self.client({POST: [json_response(document("queued"), 202)], GET: [json_response(document("running")), json_response(document())]})
        self.assertEqual(client.trace("x", id="a").stdout, "1\n")
        self.assertEqual([r.method for r in transport.requests], ["POST", "GET", "GET"])
        self.assertEqual(len(self.pauses), 1)  # the server answered at once, so it is given a moment

    def test_retries(self) -> None:
        """What can be repeated is, when that may help, as the server asks."""
        answers: list[Any] = [errors.ConnectFailed("away"), problem(503, "unavailable", retry_after="2"), problem(429, "queue-full"), json_response(document())]
        client, transport = self.client({POST: answers})
        client.trace("x")
        self.assertEqual(len(transport.requests), 4)
        self.assertEqual(len({json.loads(r.body or b"")["id"] for r in transport.requests}), 1)
        self.assertEqual(self.pauses[1], 2.0)
        self.assertTrue(all(0 < p <= 8 for p in self.pauses))

    def test_no_retry(self) -> None:
        """A refusal is final, and comes as its class."""
        for status, kind, want in [
            (422, "invalid", errors.InvalidJob), (422, "id-reused", errors.IdReused), (413, "too-large", errors.InvalidJob), (401, "x", errors.AuthError),
            (403, "x", errors.Forbidden), (404, "not-found", errors.NotFound), (500, "internal", errors.ServerError), (409, "x", errors.ApiError),
        ]:
            client, transport = self.client({POST: [problem(status, kind)]})
            with self.assertRaises(errors.ApiError) as caught:
                client.submit("x")
            err = caught.exception
            self.assertIs(type(err), want)
            self.assertEqual((err.status, err.request_id, err.errors[0]["location"]), (status, "R1", "body.x"))
            self.assertEqual(str(err), "Title: Detail. [body.x: unknown field] (R1)")
            self.assertEqual(len(transport.requests), 1)

    def test_gives_up(self) -> None:
        """After max_retries the last error comes."""
        client, transport = self.client({POST: [problem(503, "unavailable")]}, max_retries=2)
        with self.assertRaises(errors.Unavailable):
            client.submit("x")
        self.assertEqual(len(transport.requests), 3)
        client, transport = self.client({POST: [problem(429, "rate-limited", retry_after="3600")]})
        with self.assertRaises(errors.RateLimited) as caught:
            client.submit("x")
        self.assertEqual((len(transport.requests), caught.exception.retry_after), (1, 3600.0))

    def test_patience_with_a_server_that_starts(self) -> None:
        """A server that is not there yet has two seconds nearly to come, whatever the dice say."""
        for _ in range(20):
            client, _ = self.client({POST: [errors.ConnectFailed("away")]})
            with self.assertRaises(errors.ConnectFailed):
                client.trace("x")
            self.assertGreaterEqual(sum(self.pauses), 1.8)
            self.pauses.clear()

    def test_submission_outlasts_a_restart(self) -> None:
        """A submission is tried for a quarter of a minute, although the server would have it come again every second."""
        client, transport = self.client({POST: [problem(503, "unavailable", retry_after="1")]})
        with self.assertRaises(errors.Unavailable):
            client.submit("x")
        self.assertEqual(self.pauses, [1.0, 2.0, 4.0, 8.0])

    def test_wait_without_news(self) -> None:
        """A wait at whose end nobody knew where the job stands goes on, and says at its deadline that the fleet is away."""
        client, _ = self.client({GET: [problem(503, "unavailable", retry_after="1"), json_response(document())]})
        self.assertEqual(client.wait("a", timeout=1e6).stdout, "1\n")
        client, _ = self.client({GET: [problem(503, "unavailable", retry_after="1")]})
        with self.assertRaises(errors.Unavailable):
            client.wait("a", timeout=0.5)

    def test_patience(self) -> None:
        """Once a server has shown itself a wait outlives its absence; a client without retries has no patience."""
        away = [errors.ConnectFailed("away")] * 20
        lasting: list[dict[tuple[str, str], list[Any]]] = [
            {POST: [json_response(document("queued"), 202)], GET: [*away, json_response(document())]},
            {POST: [errors.TransportError("broke"), *away, json_response(document())]},
            {POST: [problem(502, "gateway"), *away, json_response(document())]},
        ]
        for script in lasting:
            client, _ = self.client(script)
            self.assertEqual(client.trace("x", id="a", timeout=1e6).stdout, "1\n")
            self.assertLessEqual(max(self.pauses), 2.0)
        for first in (errors.ConnectFailed("away"), errors.TransportError("broke")):
            client, transport = self.client({POST: [first, *away]}, max_retries=0)
            with self.assertRaises(errors.TransportError):
                client.trace("x", id="a", timeout=1e6)
            self.assertEqual(len(transport.requests), 1)

    def test_events_without_end(self) -> None:
        """A stream that ends over and over without a word is given up; one that only has comments is not."""
        client, transport = self.client({("GET", "/api/v1/traces/a/events"): [Response(200, {}, b"")]}, max_retries=2)
        with self.assertRaises(errors.TransportError):
            list(client.events("a"))
        self.assertEqual(len(transport.requests), 3)
        rest = b"id: finished-1\nevent: finished\ndata: {\"id\":\"a\",\"state\":\"finished\",\"status\":\"ok\"}\n\n"
        client, transport = self.client({("GET", "/api/v1/traces/a/events"): [*[Response(200, {}, b": still there\n\n")] * 9, Response(200, {}, rest)]}, max_retries=2)
        self.assertEqual([e.name for e in client.events("a")], ["finished"])

    def test_deadline_is_total(self) -> None:
        """Retries do not make a timeout longer, and the job is canceled."""
        now = [0.0]
        with mock.patch("time.monotonic", lambda: now[0]):
            transport = FakeTransport({POST: [json_response(document("queued"), 202)], GET: [json_response(document("queued"))], ("DELETE", "/api/v1/traces/a"): [json_response(document())]})
            send = transport.send

            def slow(request: Any) -> Response:
                now[0] += 26.0 if "wait" in request.path else 0.1
                return send(request)

            transport.send = slow  # type: ignore[assignment]
            client = TraceClient(transport=transport)
            with self.assertRaises(errors.TraceTimeout) as caught:
                client.trace("x", id="a", timeout=60)
        self.assertEqual(caught.exception.id, "a")
        self.assertEqual([r.method for r in transport.requests], ["POST", "GET", "GET", "DELETE"])
        self.assertIsInstance(caught.exception, TimeoutError)

    def test_errors_travel(self) -> None:
        """Errors can be pickled and are all of one family."""
        for err in [
            errors.TraceTimeout("late", "a"), errors.from_answer(422, {"type": "x:id-reused", "title": "T"}, 1.5), errors.ConnectFailed("away"), errors.ConfigError("x"),
        ]:
            again = pickle.loads(pickle.dumps(err))
            self.assertEqual((type(again), str(again)), (type(err), str(err)))
            self.assertEqual({k: v for k, v in vars(again).items()}, vars(err))
            self.assertIsInstance(err, errors.TracefleetError)

    def test_bad_use(self) -> None:
        """What cannot work is said before anything is sent."""
        client, transport = self.client({})
        calls: list[Callable[[], object]] = [
            lambda: client.get("a/../b"), lambda: client.get(""), lambda: client.submit("\ud800"), lambda: client.submit({"main.py": b"x"}),  # type: ignore[dict-item]
            lambda: TraceClient("ftp://x"), lambda: TraceClient(None), lambda: TraceClient("http://u:p@x"), lambda: TraceClient("http://x", timeout=0),
            lambda: list(client.map([], concurrency=0)),
        ]
        for call in calls:
            with self.assertRaises(errors.ConfigError):
                call()
        self.assertEqual(transport.requests, [])

    def test_unknown_status(self) -> None:
        """A newer server's words pass."""
        client, _ = self.client({GET: [json_response(document(status="exploded", novelty=1))]})
        result = client.wait("a")
        self.assertEqual((result.status, result.raw["novelty"]), ("exploded", 1))
        self.assertIs(result.raise_for_status(), result)

    def test_what_the_tracer_tells(self) -> None:
        """Effects and exceptions are typed; what is missing is empty, what is new is in raw."""
        effect = {"kind": "socket", "action": "connect", "name": "10.0.0.1:80", "family": "AF_INET", "error": "ENETUNREACH", "times": 2, "failures": 2, "file": "main.py", "line": 3, "function": "f", "thread": 1, "seq": 7, "novelty": 1}
        exceptions = [{"number": 1, "type": "OSError", "message": "x", "file": "main.py", "line": 3, "function": "f", "thread": 1, "caught": None, "seq": 7}]
        threads = [{"thread": 2, "type": "KeyError", "message": "'a'", "file": "main.py", "line": 4, "function": "g"}]
        client, _ = self.client({GET: [json_response(document(effects=[effect, {"kind": "file", "action": "read"}], summary={"exceptions": exceptions, "thread_exceptions": threads}))]})
        result = client.wait("a")
        self.assertEqual((result.effects[0].name, result.effects[0].error, result.effects[0].times), ("10.0.0.1:80", "ENETUNREACH", 2))
        self.assertEqual((result.effects[1].kind, result.effects[1].error, result.effects[1].line), ("file", None, 0))
        self.assertEqual([(e.type, e.caught) for e in result.exceptions], [("OSError", None)])
        self.assertEqual(result.thread_exceptions, [tracefleet.ThreadException(2, "KeyError", "'a'", "main.py", 4, "g")])
        self.assertEqual(result.raw["effects"][0]["novelty"], 1)
        bare, _ = self.client({GET: [json_response(document(effects=None, summary=None))]})
        empty = bare.wait("a")
        self.assertEqual((empty.effects, empty.exceptions, empty.thread_exceptions), ([], [], []))

    def test_raise_for_status(self) -> None:
        """Only what the fleet could not run raises."""
        for status, raises in [("ok", False), ("exception", False), ("time_limit", False), ("system_error", True), ("rejected", True)]:
            client, _ = self.client({GET: [json_response(document(status=status, error="why"))]})
            result = client.wait("a")
            if raises:
                with self.assertRaisesRegex(tracefleet.FailedRun, f"{status}: why"):
                    result.raise_for_status()
            else:
                result.raise_for_status()

    def test_map(self) -> None:
        """Outcomes carry their index; one error does not stop the others."""
        client, _ = self.client({POST: [json_response(document()), problem(422, "invalid"), json_response(document())]})
        items = sorted(client.map(["1", ("2", {"stdin": "x"}), {"main.py": "3"}], concurrency=1), key=lambda i: i.index)
        self.assertEqual([(i.index, i.error is None) for i in items], [(0, True), (1, False), (2, True)])

    def test_events(self) -> None:
        """A stream that breaks is taken up where it was."""
        stream = "id: queued-0\nevent: queued\ndata: {\"id\":\"a\",\"state\":\"queued\"}\n\n: comment\n\n"
        rest = "id: finished-1\nevent: finished\ndata: {\"id\":\"a\",\"state\":\"finished\",\"status\":\"ok\"}\n\n"
        client, transport = self.client({("GET", "/api/v1/traces/a/events"): [Response(200, {}, stream.encode()), Response(200, {}, rest.encode())]})
        self.assertEqual([(e.name, e.status) for e in client.events("a")], [("queued", None), ("finished", "ok")])
        self.assertEqual(transport.requests[1].headers, {"Last-Event-ID": "queued-0"})

    def test_async_is_the_same(self) -> None:
        """The async client drives the same flows."""

        async def main() -> None:
            transport = AsyncFakeTransport({POST: [errors.ConnectFailed("away"), json_response(document("queued"), 202)], GET: [json_response(document())]})
            async with AsyncTraceClient(transport=transport) as client:
                result = await client.trace("x", id="a")
                self.assertTrue(result.ok)
                self.assertEqual([r.method for r in transport.requests], ["POST", "POST", "GET"])
                items = [item async for item in client.map(["1", "2"])]
                self.assertEqual(sorted(i.index for i in items), [0, 1])

        asyncio.run(main())


class WebhookTest(unittest.TestCase):
    """Signatures of webhooks."""

    def test_verify(self) -> None:
        """What was changed, is old, or was signed by others is refused."""
        key = b"k" * 32
        secret = "whsec_" + base64.b64encode(key).decode()
        now = str(int(time.time()))

        def sign(id: str, at: str, body: bytes) -> str:
            return "v1," + base64.b64encode(hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()).decode()

        good = {"Webhook-Id": "evt_1", "webhook-timestamp": now, "webhook-signature": "v1,AAAA " + sign("evt_1", now, b"{}")}
        self.assertTrue(tracefleet.verify_webhook(b"{}", good, secret))
        old = str(int(now) - 1000)
        bad: list[tuple[bytes, dict[str, str]]] = [
            (b"{ }", good), (b"{}", {**good, "Webhook-Id": "evt_2"}), (b"{}", {}), (b"{}", {**good, "webhook-signature": "v2," + sign("evt_1", now, b"{}")[3:]}),
            (b"{}", {"webhook-id": "evt_1", "webhook-timestamp": old, "webhook-signature": sign("evt_1", old, b"{}")}),
        ]
        for body, headers in bad:
            self.assertFalse(tracefleet.verify_webhook(body, headers, secret))
        with self.assertRaises(errors.ConfigError):
            tracefleet.verify_webhook(b"", good, "whsec_?")


if __name__ == "__main__":
    unittest.main()
