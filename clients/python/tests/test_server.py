"""The client against a real server. TRACEFLEET_TEST_URL and TRACEFLEET_TEST_TOKEN name it; go test ./clients/python starts one.

The stand-in for the workers of that server takes a program's first line as an order: ``# sleep 0.5`` lets it take
that long, ``# fail`` makes it fail. Its output is its input.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import unittest
import warnings

from tracefleet import AsyncTraceClient, TraceClient, errors, execra

URL = os.environ.get("TRACEFLEET_TEST_URL", "")
SECOND = os.environ.get("TRACEFLEET_TEST_URL_2", "")
TOKEN = os.environ.get("TRACEFLEET_TEST_TOKEN", "")


@unittest.skipUnless(URL, "no server was started")
class ServerTest(unittest.TestCase):
    """Both clients against one server."""

    def client(self, **options: float) -> TraceClient:
        """Return a client that is closed at the end of the test."""
        client = TraceClient(URL, token=TOKEN, timeout=options.get("timeout", 60.0), max_retries=int(options.get("max_retries", 3)))
        self.addCleanup(client.close)
        return client

    def test_trace(self) -> None:
        """A program, its output, its exception."""
        client = self.client()
        result = client.trace("print(1)", stdin="äöü ☃\n", labels={"k": "v"}, limits={"wall_ms": 2000})
        self.assertEqual((result.status, result.stdout, result.returncode), ("ok", "äöü ☃\n", 0))
        self.assertIsNotNone(result.trace)
        failed = client.trace({"main.py": "# fail\n1/0"})
        self.assertEqual((failed.status, failed.ok), ("exception", False))
        self.assertEqual((failed.exception or {})["type"], "ZeroDivisionError")

    def test_submit_and_wait(self) -> None:
        """The same id is the same job, and other input is refused."""
        client = self.client()
        id = f"py-{time.time_ns()}"
        self.assertTrue(client.submit("# sleep 0.3\n", id=id).created)
        self.assertFalse(client.submit("# sleep 0.3\n", id=id).created)
        with self.assertRaises(errors.IdReused):
            client.submit("other", id=id)
        self.assertIsNone(client.get(id).result)
        self.assertEqual(client.wait(id).id, id)
        self.assertTrue(client.get(id).ended)
        with self.assertRaises(errors.NotFound):
            client.get("nobody")
        with self.assertRaises(errors.InvalidJob) as caught:
            client.submit("x", limits={"wall_ms": 1})
        self.assertEqual(caught.exception.errors[0]["location"], "body.limits.wall_ms")

    def test_timeout_and_cancel(self) -> None:
        """A wait that is over keeps the id; trace cancels."""
        client = self.client()
        handle = client.submit("# hold\n")
        with self.assertRaises(errors.TraceTimeout) as caught:
            client.wait(handle.id, timeout=0.3)
        self.assertEqual(caught.exception.id, handle.id)
        self.assertIsNone(client.get(handle.id).result)
        client.cancel(handle.id)
        self.assertEqual(client.wait(handle.id).status, "canceled")
        with self.assertRaises(errors.TraceTimeout) as caught:
            client.trace("# hold\n", timeout=0.5)
        self.assertEqual(client.wait(caught.exception.id or "").status, "canceled")

    def test_events(self) -> None:
        """What happens to a job, in order."""
        client = self.client()
        handle = client.submit("# sleep 0.3\n")
        self.assertEqual([e.name for e in client.events(handle.id)], ["queued", "started", "finished"])
        with self.assertRaises(errors.NotFound):
            list(client.events("nobody"))

    def test_access(self) -> None:
        """A wrong token, and nobody at the address."""
        with TraceClient(URL, token="tf_wrong") as client, self.assertRaises(errors.AuthError):
            client.limits()
        with TraceClient("http://127.0.0.1:1", max_retries=1) as client, self.assertRaises(errors.ConnectFailed):
            client.limits()

    def test_map_and_threads(self) -> None:
        """Many programs over one client."""
        client = self.client()
        items = list(client.map([(f"print({i})", {"stdin": str(i)}) for i in range(30)], concurrency=6))
        self.assertEqual({i.index: i.result.stdout if i.result else i.error for i in items}, {i: str(i) for i in range(30)})
        found: list[int] = []
        threads = [threading.Thread(target=lambda: found.append(client.limits()["max_wait_s"])) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [30] * 8)

    def test_execra(self) -> None:
        """The adapters give Execra's shapes."""
        seed = execra.SandboxedCodeTracer(self.client(), mode=execra.SANDBOXED)
        self.assertEqual(seed.trace("print(1)", "in"), {"stdout": "in", "stderr": "", "returncode": 0})
        tracer = execra.RemoteCodeTracer(self.client(), mode=execra.SANDBOXED)
        tracer.run("# fail\n1/0")
        self.assertEqual(set(tracer.get_trace_log()[0]) & {"event_type", "function", "lineno", "args", "return_value", "exception"}, {"event_type", "function", "lineno", "args", "return_value", "exception"})
        self.assertEqual([e["exception"] for e in tracer.error_events()], ["ZeroDivisionError: division by zero"])
        self.assertGreaterEqual(tracer.get_summary()["total_calls"], 1)


@unittest.skipUnless(URL, "no server was started")
class AsyncServerTest(unittest.IsolatedAsyncioTestCase):
    """What only the async client has to show."""

    async def test_trace(self) -> None:
        """The same names, awaited."""
        async with AsyncTraceClient(URL, token=TOKEN) as client:
            result = await client.trace("print(1)", stdin="in")
            self.assertEqual((result.stdout, result.returncode), ("in", 0))
            handle = await client.submit("# sleep 0.2\n")
            self.assertEqual([e.name async for e in client.events(handle.id)], ["queued", "started", "finished"])
            self.assertTrue((await client.get(handle.id)).ended)
            self.assertEqual((await client.execra(handle.id))["status"], "ok")
            items = [item async for item in client.map(["1", "2", "3"])]
            self.assertEqual(sorted(i.index for i in items), [0, 1, 2])
            with self.assertRaises(errors.NotFound):
                await client.wait("nobody")

    async def test_200_waits(self) -> None:
        """200 waits at once end with the job as one does, over connections that are used again."""
        async with AsyncTraceClient(URL, token=TOKEN) as client, AsyncTraceClient(SECOND or URL, token=TOKEN) as other:
            gate = await client.submit("# hold\n", id=f"gate-{time.time_ns()}")

            async def waits(n: int) -> float:
                begin = time.monotonic()
                await asyncio.gather(*[(client, other)[i % 2].wait(gate.id, timeout=60) for i in range(n)])
                return time.monotonic() - begin

            one = asyncio.create_task(waits(1))
            many = asyncio.create_task(waits(200))
            await asyncio.sleep(1.0)
            self.assertFalse(one.done() or many.done())
            released = time.monotonic()
            await client.cancel(gate.id)
            alone, together = await asyncio.gather(one, many)
            print(f"one wait {alone:.3f} s, 200 waits {together:.3f} s, of it after the end {time.monotonic() - released:.3f} s")
            # One after the other they would take their whole time each; a busy machine may take seconds for all.
            self.assertLess(together, alone + 40)

    async def test_cancelled_wait_leaves(self) -> None:
        """A task that is cancelled closes its connection, and the client goes on."""
        async with AsyncTraceClient(URL, token=TOKEN) as client:
            handle = await client.submit("# hold\n")
            task = asyncio.create_task(client.wait(handle.id))
            await asyncio.sleep(0.2)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual((await client.limits())["max_wait_s"], 30)
            traced = asyncio.create_task(client.trace("# hold\n", id=f"left-{handle.id}"))
            await asyncio.sleep(0.3)
            traced.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await traced
            await client.cancel(handle.id)
            self.assertEqual((await client.wait(f"left-{handle.id}", timeout=60)).status, "canceled")

    def test_two_loops(self) -> None:
        """One client under one event loop after the other."""
        client = AsyncTraceClient(URL, token=TOKEN)

        def once() -> None:
            async def main() -> None:
                self.assertEqual((await client.limits())["max_wait_s"], 30)

            asyncio.run(main())

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # A closed loop leaves its connections to the collector.
            for _ in range(2):
                thread = threading.Thread(target=once)
                thread.start()
                thread.join()
            del client, once
            gc.collect()


if __name__ == "__main__":
    unittest.main()
