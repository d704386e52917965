"""The adapters for Execra, against the rules of its ErrorDetector."""

from __future__ import annotations

import os
import unittest
from collections.abc import Iterable
from typing import Any
from unittest import mock

from tracefleet import TraceClient, errors, execra
from tracefleet.models import Result
from tracefleet.testing import FakeTransport, json_response

POST, GET = ("POST", "/api/v1/traces"), ("GET", "/api/v1/traces/a")


def analyze(events: Iterable[dict[str, Any]], loop_threshold: int = 1000) -> list[tuple[str, Any]]:
    """Apply the rules of ErrorDetector.analyze_trace, written down anew: type and line of each error."""
    found: list[tuple[str, Any]] = []
    depth = deepest = 0
    loops: dict[str, int] = {}
    for event in events:
        kind, line = event.get("event_type"), event.get("line")
        if kind == "exception":
            found.append(("UnhandledException", line))
        elif kind == "call":
            depth += 1
            deepest = max(deepest, depth)
        elif kind == "return":
            depth = max(0, depth - 1)
            want, got = event.get("expected_return_type"), event.get("return_value")
            if want and want != "None" and got is None:
                found.append(("UnexpectedNoneReturn", line))
            elif want and got is not None and type(got).__name__ != want:
                found.append(("TypeMismatch", line))
        elif kind == "loop_iteration":
            loop = event.get("loop_id", "unknown")
            loops[loop] = loops.get(loop, 0) + 1
            if loops[loop] > loop_threshold:
                found.append(("PotentialInfiniteLoop", line))
    if deepest > 500:
        found.append(("ExcessiveRecursion", None))
    return found


def step(kind: str, function: str, line: int, depth: int, exception: str | None = None) -> dict[str, Any]:
    """Return one event of a trace log."""
    return {"event_type": kind, "function": function, "lineno": line, "line": line, "args": {}, "return_value": None, "exception": exception, "file": "main.py", "depth": depth, "thread": 1}


def raised(number: int, type: str, line: int, caught: bool | None, function: str = "<module>", thread: int = 1) -> dict[str, Any]:
    """Return one item of the list of exceptions."""
    return {"number": number, "type": type, "message": "x", "file": "main.py", "line": line, "function": function, "thread": thread, "caught": caught, "seq": number}


class ErrorEventsTest(unittest.TestCase):
    """What ErrorDetector reports."""

    def test_nothing_wrong(self) -> None:
        """A program that handles its exceptions has no error, whatever its log shows."""
        log = [step("exception", "<module>", 11, 1, "StopIteration: "), step("exception", "f", 2, 2, "ValueError: x")]
        document: dict[str, Any] = {
            "status": "ok", "exception": None, "trace_log": log, "summary": {"max_recursion_depth": 3}, "loops": [{"file": "main.py", "line": 9, "iterations": 1000}],
            "exceptions": [raised(1, "ValueError", 2, True), raised(2, "SystemExit", 3, True)],
        }
        self.assertEqual(analyze(execra.error_events(document)), [])
        self.assertEqual(analyze(execra.error_events(document, unhandled_only=False)), [("UnhandledException", 2)])
        self.assertTrue(execra.error_events(document, unhandled_only=False)[0]["handled"])

    def test_one_error_for_one_exception(self) -> None:
        """An exception that passes three frames is one error, where it was raised."""
        uncaught = {"type": "pkg.ValueError", "message": "x", "line": 2, "function": "inner", "file": "main.py"}
        document: dict[str, Any] = {"status": "exception", "exception": uncaught, "trace_log": [], "summary": {}, "loops": [], "exceptions": [raised(1, "pkg.ValueError", 2, False)]}
        for only in (True, False):
            events = execra.error_events(document, only)
            self.assertEqual(analyze(events), [("UnhandledException", 2)])
            self.assertEqual(events[0]["exception"], "ValueError: x")

    def test_threads(self) -> None:
        """An exception that ends a thread is an error though the program ends well."""
        death = {"thread": 2, "type": "KeyError", "message": "'a'", "file": "main.py", "line": 4, "function": "work"}
        document: dict[str, Any] = {"status": "ok", "exception": None, "trace_log": [], "summary": {}, "loops": [], "exceptions": [raised(1, "KeyError", 4, False, thread=2)], "thread_exceptions": [death]}
        for only in (True, False):
            events = execra.error_events(document, only)
            self.assertEqual(analyze(events), [("UnhandledException", 4)])
            self.assertEqual((events[0]["exception"], events[0]["function"]), ("KeyError: 'a'", "work"))

    def test_loops(self) -> None:
        """A hot loop is reported once, with its line."""
        document: dict[str, Any] = {"status": "time_limit", "error": "Code execution timed out after 10s.", "exception": None, "trace_log": [], "summary": {}, "loops": [{"file": "main.py", "line": 2, "iterations": 9_000_000}]}
        self.assertEqual(analyze(execra.error_events(document)), [("UnhandledException", 2), ("PotentialInfiniteLoop", 2)])
        self.assertEqual(execra.error_events(document)[0]["exception"], "TimeoutError: Code execution timed out after 10s.")
        self.assertEqual(analyze(execra.error_events(document, loop_threshold=50), 50)[1:], [("PotentialInfiniteLoop", 2)])

    def test_stopped_while_it_waits(self) -> None:
        """A program that waits is where its log ends, whatever loops it has been through."""
        document: dict[str, Any] = {
            "status": "time_limit", "error": "Code execution timed out after 10s.", "exception": None, "summary": {},
            "trace_log": [step("line", "fetch", 8, 2), step("line", "fetch", 9, 2)], "loops": [{"file": "main.py", "line": 4, "iterations": 20}],
        }
        event = execra.error_events(document)[0]
        self.assertEqual((event["line"], event["function"]), (9, "fetch"))

    def test_recursion(self) -> None:
        """Deep nesting is reported once; 500 is not too deep."""
        for depth, want in [(500, []), (994, [("ExcessiveRecursion", None)])]:
            document: dict[str, Any] = {"status": "ok", "exception": None, "trace_log": [], "summary": {"max_recursion_depth": depth}, "loops": []}
            self.assertEqual(analyze(execra.error_events(document)), want)

    def test_syntax_error(self) -> None:
        """A program that does not compile has one error on its line."""
        uncaught = {"type": "SyntaxError", "message": "'(' was never closed", "line": 1, "function": "<module>", "file": "main.py"}
        events = execra.error_events({"status": "syntax_error", "exception": uncaught, "trace_log": [], "summary": None, "loops": []})
        self.assertEqual(analyze(events), [("UnhandledException", 1)])
        self.assertEqual(events[0]["exception"], "SyntaxError: '(' was never closed")

    def test_exit(self) -> None:
        """sys.exit is no error of its own."""
        document: dict[str, Any] = {"status": "exit_nonzero", "exception": None, "trace_log": [step("exception", "<module>", 1, 1, "SystemExit: 3")], "summary": {}, "loops": [], "exceptions": [raised(1, "SystemExit", 1, False)]}
        self.assertEqual(execra.error_events(document, unhandled_only=False), [])


class AdapterTest(unittest.TestCase):
    """The classes that stand in for Execra's."""

    def tracer(self, *answers: Any) -> execra.SandboxedCodeTracer:
        """Return a tracer over a fake transport."""
        return execra.SandboxedCodeTracer(TraceClient(transport=FakeTransport({POST: list(answers)}), max_retries=0), mode=execra.SANDBOXED)

    def document(self, **result: Any) -> Any:
        """Return an answer with a result."""
        return json_response({"id": "a", "state": "finished", "status": "ok", "result": {"id": "a", "status": "ok", "stdout": "", "stderr": "", "returncode": 0, **result}})

    def test_contract(self) -> None:
        """The keys are those of the contract, and no others."""
        self.assertEqual(self.tracer(self.document(stdout="1\n")).trace("print(1)", "in"), {"stdout": "1\n", "stderr": "", "returncode": 0})
        late = self.tracer(self.document(status="time_limit", returncode=None, error="Code execution timed out after 10s.", stdout="part"))
        self.assertEqual(late.trace("while True: pass"), {"stdout": "part", "stderr": "", "returncode": None, "error": "Code execution timed out after 10s."})
        self.assertTrue(late.last_result is not None and late.last_result.timed_out)

    def test_fleet_is_away(self) -> None:
        """The answer says so, and nothing runs here."""
        marker = "this_must_not_run_here"
        code = f"import os; os.environ[{marker!r}] = '1'"
        found = self.tracer(errors.ConnectFailed("cannot connect to x:1")).trace(code)
        self.assertIn("cannot be reached; nothing was executed here", found["error"])
        self.assertIsNone(found["returncode"])
        self.assertNotIn(marker, os.environ)

    def test_why_there_is_no_answer(self) -> None:
        """Each way to have none is told apart, and none raises."""
        for status, want in ((422, "refused the code"), (429, "busy"), (503, "busy"), (401, "does not let"), (403, "does not let"), (500, "fault")):
            found = self.tracer(json_response({"title": "T", "status": status}, status)).trace("1")
            self.assertEqual(set(found), {"stdout", "stderr", "returncode", "error"})
            self.assertIn(want, found["error"])
        self.assertIn("Nothing was executed: the job holds half of a surrogate pair", self.tracer().trace("'\ud800'")["error"])

    def test_mode(self) -> None:
        """Without SANDBOX_MODE=sandboxed nothing is sent."""
        for mode in ({}, {"SANDBOX_MODE": "static_only"}, {"SANDBOX_MODE": ""}, {"SANDBOX_MODE": "on"}):
            with mock.patch.dict(os.environ, mode, clear=True):
                transport = FakeTransport({})
                found = execra.SandboxedCodeTracer(TraceClient(transport=transport)).trace("1")
                self.assertIn("switched off", found["error"])
                self.assertEqual(transport.requests, [])
                with self.assertRaises(execra.SandboxDisabled):
                    execra.RemoteCodeTracer(TraceClient(transport=transport)).run("1")
        with mock.patch.dict(os.environ, {"SANDBOX_MODE": "sandboxed"}, clear=True):
            self.assertEqual(execra.sandbox_mode(), execra.SANDBOXED)
            self.assertIn("TRACEFLEET_URL", execra.SandboxedCodeTracer().trace("1")["error"])

    def test_remote_tracer(self) -> None:
        """The shapes are those of CodeTracer."""
        log = [step("call", "<module>", 1, 1)]
        summary = {"total_calls": 1, "total_lines": 1, "exceptions_caught": 0, "max_recursion_depth": 1, "execution_path": ["<module>"], "truncated": False}
        transport = FakeTransport({POST: [self.document(usage={"wall_ms": 200, "cpu_ms": 100, "max_memory_bytes": 9 << 20})], GET: [json_response({"trace_log": log, "summary": summary, "loops": []})]})
        tracer = execra.RemoteCodeTracer(TraceClient(transport=transport), mode=execra.SANDBOXED)
        self.assertEqual((tracer.get_trace_log(), tracer.get_summary()["total_calls"]), ([], 0))
        tracer.run("print(1)")
        self.assertEqual((tracer.get_trace_log(), tracer.get_summary()), (log, summary))
        self.assertEqual((tracer.event_count, tracer.max_depth_seen, tracer.is_active), (1, 1, False))
        self.assertEqual(transport.requests[-1].path, "/api/v1/traces/a?format=execra")
        self.assertEqual(tracer.to_execution_trace(step_count=7), {"duration_ms": 200.0, "cpu_percent": 50.0, "memory_mb": 9.0, "error_count": 0, "warning_count": 0, "step_count": 7})
        for call in (lambda: tracer.start_trace("m"), tracer.stop_trace):
            with self.assertRaises(errors.ConfigError):
                call()

    def test_warnings_are_counted(self) -> None:
        """Warnings are lines of stderr in Python's own form."""
        result = Result.from_document({"id": "a", "status": "exception", "stderr": "/job/main.py:1: DeprecationWarning: old\n  x\nWarning: mine\nmain.py:3: UserWarning: w\n"})
        self.assertEqual(execra.to_execution_trace(result)["warning_count"], 2)
        self.assertEqual(execra.to_execution_trace(result)["error_count"], 1)
        told = Result.from_document({"id": "a", "status": "ok", "summary": {"warnings": 5, "thread_exceptions_total": 2}})
        self.assertEqual((execra.to_execution_trace(told)["warning_count"], execra.to_execution_trace(told)["error_count"]), (5, 2))

    def test_notice(self) -> None:
        """The sentence is the one that Execra shows."""
        self.assertEqual(execra.SANDBOX_WARNING, "⚠️ Execra will execute this code in a sandboxed environment. Review before tracing.")


if __name__ == "__main__":
    unittest.main()
