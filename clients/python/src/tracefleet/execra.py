"""What Execra puts in the place of its in-process tracer.

Nothing here runs a program in this process, whatever happens: when the fleet is away, or SANDBOX_MODE does not
allow running code, the answer says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from .aclient import AsyncTraceClient
from .client import TraceClient
from .errors import ApiError, AuthError, ConfigError, Forbidden, RateLimited, ServerError, TracefleetError, TraceTimeout, Unavailable
from .models import Code, Limits, Result, Status

SANDBOX_WARNING = "⚠️ Execra will execute this code in a sandboxed environment. Review before tracing."
"""What to show a user before their program is traced."""

STATIC_ONLY = "static_only"
SANDBOXED = "sandboxed"

LOOP_THRESHOLD = 1000
"""The default of Execra's ErrorDetector: a loop with more iterations is a suspect."""
DEPTH_THRESHOLD = 500
"""The nesting above which ErrorDetector speaks of excessive recursion."""

QUEUE_SECONDS = 30.0
"""How long a program may wait for its turn before the caller is told that the fleet is busy."""

_WARNING = re.compile(r"^\S.*:\d+: \w*Warning: ", re.MULTILINE)
_NO_ERRORS = frozenset({"StopIteration", "StopAsyncIteration", "GeneratorExit", "SystemExit"})


class SandboxDisabled(TracefleetError):
    """SANDBOX_MODE does not allow running code."""


def sandbox_mode() -> str:
    """Return what SANDBOX_MODE says; static_only when it says nothing."""
    return os.environ.get("SANDBOX_MODE", STATIC_ONLY).strip() or STATIC_ONLY


def _check_mode(mode: str | None) -> None:
    found = mode or sandbox_mode()
    if found != SANDBOXED:
        raise SandboxDisabled(f"Code execution is switched off (SANDBOX_MODE={found}); nothing was executed.")


def _explain(err: TracefleetError) -> str:
    """Say in one sentence why there is no result."""
    if isinstance(err, SandboxDisabled):
        return str(err)
    if isinstance(err, TraceTimeout) and err.id:
        return "The sandbox did not finish in time; the run was canceled."
    if isinstance(err, ConfigError):
        return f"Nothing was executed: {err}"
    if isinstance(err, (RateLimited, Unavailable)):
        return f"The sandbox is busy or not ready; nothing was executed. ({err})"
    if isinstance(err, (AuthError, Forbidden)):
        return f"The sandbox does not let this Execra in; nothing was executed. ({err})"
    if isinstance(err, ServerError):
        return f"The sandbox has a fault of its own. ({err})"
    if isinstance(err, ApiError):
        return f"The sandbox refused the code: {err}"
    return f"The sandbox cannot be reached; nothing was executed here. ({err})"


class _Seed:
    """What both SandboxedCodeTracer classes have in common."""

    MAX_EXECUTION_SECONDS = 10
    MAX_MEMORY_MB = 256
    MAX_OUTPUT_BYTES = 1_000_000

    def __init__(self, mode: str | None) -> None:
        self._mode = mode
        self.last_result: Result | None = None
        """The whole result of the last run, or None when there was none."""

    def _limits(self) -> Limits:
        seconds = self.MAX_EXECUTION_SECONDS * 1000
        return {"wall_ms": seconds, "cpu_ms": seconds, "memory_bytes": self.MAX_MEMORY_MB << 20, "output_bytes": self.MAX_OUTPUT_BYTES}

    def _answer(self, result: Result) -> dict[str, Any]:
        self.last_result = result
        answer: dict[str, Any] = {"stdout": result.stdout, "stderr": result.stderr, "returncode": result.returncode}
        if result.error is not None:
            answer["error"] = result.error
        return answer

    def _no_answer(self, err: TracefleetError) -> dict[str, Any]:
        self.last_result = None
        return {"stdout": "", "stderr": "", "returncode": None, "error": _explain(err)}


class SandboxedCodeTracer(_Seed):
    """Executes user code in a sandbox with resource limits. It never raises for what the code, or the fleet, does."""

    def __init__(self, client: TraceClient | None = None, *, mode: str | None = None) -> None:
        super().__init__(mode)
        self._client = client

    def trace(self, code: str, stdin_input: str = "") -> dict[str, Any]:
        """Return ``stdout``, ``stderr`` and ``returncode``, and ``error`` when the program was not left to end in its own way."""
        try:
            _check_mode(self._mode)
            client = self._client = self._client or TraceClient.from_env()
            timeout = self.MAX_EXECUTION_SECONDS + QUEUE_SECONDS
            return self._answer(client.trace(code, stdin=stdin_input, limits=self._limits(), timeout=timeout))
        except TracefleetError as err:
            return self._no_answer(err)


class AsyncSandboxedCodeTracer(_Seed):
    """The same for asyncio."""

    def __init__(self, client: AsyncTraceClient | None = None, *, mode: str | None = None) -> None:
        super().__init__(mode)
        self._client = client

    async def trace(self, code: str, stdin_input: str = "") -> dict[str, Any]:
        """Return ``stdout``, ``stderr`` and ``returncode``, and ``error`` when the program was not left to end in its own way."""
        try:
            _check_mode(self._mode)
            client = self._client = self._client or AsyncTraceClient.from_env()
            timeout = self.MAX_EXECUTION_SECONDS + QUEUE_SECONDS
            return self._answer(await client.trace(code, stdin=stdin_input, limits=self._limits(), timeout=timeout))
        except TracefleetError as err:
            return self._no_answer(err)


class _Recorded:
    """The outcome of one run in the shapes of Execra's CodeTracer."""

    RECURSION_LIMIT = 1000
    EVENT_LIMIT = 10000

    def __init__(self, mode: str | None) -> None:
        self._mode = mode
        self._document: dict[str, Any] = {}
        self.result: Result | None = None
        """The whole result of the last run."""
        self.target_module = ""
        self.event_count = 0
        self.current_depth = 0
        self.max_depth_seen = 0
        self.is_active = False

    def start_trace(self, target_module_name: str) -> None:
        """Refuse: a trace of the calling process is what the sandbox replaces."""
        raise ConfigError("start_trace would trace this process; run the program in the sandbox with run()")

    def stop_trace(self) -> None:
        """Refuse, as start_trace does."""
        raise ConfigError("stop_trace has nothing to stop: programs run in the sandbox, with run()")

    def get_trace_log(self) -> list[dict[str, Any]]:
        """Return the events of the last run: the six keys of CodeTracer, and line, file, depth, thread, seq."""
        return list(self._document.get("trace_log") or [])

    def get_summary(self) -> dict[str, Any]:
        """Return the counts of the last run. They cover the whole run, also what the log leaves out."""
        empty = {"total_calls": 0, "total_lines": 0, "exceptions_caught": 0, "max_recursion_depth": 0, "execution_path": []}
        return dict(self._document.get("summary") or empty)

    def error_events(self, unhandled_only: bool = True, *, loop_threshold: int = LOOP_THRESHOLD) -> list[dict[str, Any]]:
        """Return events for ErrorDetector.analyze_trace; see the function of this name."""
        return error_events(self._document, unhandled_only, loop_threshold=loop_threshold)

    def to_execution_trace(self, **overrides: Any) -> dict[str, Any]:
        """Return the arguments for ExecutionTrace; see the function of this name."""
        if self.result is None:
            raise ConfigError("nothing was run yet")
        return to_execution_trace(self.result, **overrides)

    def _keep(self, result: Result, document: dict[str, Any]) -> None:
        self.result, self._document = result, document
        summary = self.get_summary()
        self.target_module = "__main__"
        self.event_count = len(self.get_trace_log())
        self.max_depth_seen = int(summary["max_recursion_depth"])


class RemoteCodeTracer(_Recorded):
    """Runs programs in the sandbox and gives what CodeTracer would have recorded."""

    def __init__(self, client: TraceClient | None = None, *, mode: str | None = None) -> None:
        super().__init__(mode)
        self._client = client

    def run(self, code: Code, stdin_input: str = "", *, limits: Limits | None = None, timeout: float | None = None) -> Result:
        """Run a program and keep its trace. Raises SandboxDisabled, or what TraceClient.trace raises."""
        _check_mode(self._mode)
        client = self._client = self._client or TraceClient.from_env()
        result = client.trace(code, stdin=stdin_input, limits=limits, timeout=timeout)
        self._keep(result, client.execra(result.id))
        return result


class AsyncRemoteCodeTracer(_Recorded):
    """The same for asyncio."""

    def __init__(self, client: AsyncTraceClient | None = None, *, mode: str | None = None) -> None:
        super().__init__(mode)
        self._client = client

    async def run(self, code: Code, stdin_input: str = "", *, limits: Limits | None = None, timeout: float | None = None) -> Result:
        """Run a program and keep its trace. Raises SandboxDisabled, or what AsyncTraceClient.trace raises."""
        _check_mode(self._mode)
        client = self._client = self._client or AsyncTraceClient.from_env()
        result = await client.trace(code, stdin=stdin_input, limits=limits, timeout=timeout)
        self._keep(result, await client.execra(result.id))
        return result


def error_events(document: Mapping[str, Any], unhandled_only: bool = True, *, loop_threshold: int = LOOP_THRESHOLD) -> list[dict[str, Any]]:
    """Return the events that make ErrorDetector.analyze_trace report what went wrong, and nothing else.

    ``document`` is what ``TraceClient.execra`` returns. There is one exception event for each exception, not one for
    each frame it passes; none for ends of iterations and SystemExit; with ``unhandled_only`` none for what the program handled. A
    program that did not compile or was stopped at a limit gives one too, and so does a thread that one ended. A loop with more than ``loop_threshold`` iterations gives
    just as many events as make the detector report it once, and nesting above 500 makes it speak of recursion once.
    """
    found: list[dict[str, Any]] = []
    uncaught = document.get("exception")
    if not unhandled_only:
        found += _handled(document)
    if uncaught and _bare(uncaught["type"]) not in _NO_ERRORS:
        found.append(_exception(f"{_bare(uncaught['type'])}: {uncaught['message']}", uncaught.get("line"), uncaught.get("function"), uncaught.get("file")))
    elif stopped := _stopped(document, loop_threshold):
        found.append(stopped)
    for death in document.get("thread_exceptions") or []:
        found.append(_exception(f"{_bare(death['type'])}: {death['message']}", death.get("line"), death.get("function"), death.get("file")))
    for loop in document.get("loops") or []:
        if loop["iterations"] > loop_threshold:
            event = {"event_type": "loop_iteration", "loop_id": f"{loop['file']}:{loop['line']}", "line": loop["line"], "lineno": loop["line"], "file": loop["file"]}
            found += [dict(event) for _ in range(loop_threshold + 1)]
    summary = document.get("summary") or {}
    if int(summary.get("max_recursion_depth") or 0) > DEPTH_THRESHOLD:
        depth = DEPTH_THRESHOLD + 1
        found += [{"event_type": "call", "line": None} for _ in range(depth)]
        found += [{"event_type": "return", "line": None} for _ in range(depth)]
    return found


def _exception(text: str, line: int | None, function: str | None, file: str | None, handled: bool = False) -> dict[str, Any]:
    return {
        "event_type": "exception", "function": function or "<module>", "lineno": line, "line": line, "args": {}, "return_value": None,
        "exception": text, "file": file, "handled": handled,
    }


def _bare(name: str) -> str:
    """Return the last part of a qualified name."""
    return name.rpartition(".")[2]


def _handled(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each exception that ended neither the program nor a thread, where it was raised: the first and the last of the whole run."""
    raised = [e for e in document.get("exceptions") or [] if e.get("caught") is not False and _bare(e["type"]) not in _NO_ERRORS]
    return [_exception(f"{_bare(e['type'])}: {e['message']}", e.get("line"), e.get("function"), e.get("file"), handled=True) for e in raised]


def _stopped(document: Mapping[str, Any], loop_threshold: int) -> dict[str, Any] | None:
    """Return an exception event for a program that was not left to end in its own way."""
    names = {
        Status.TIME_LIMIT: "TimeoutError", Status.MEMORY_LIMIT: "MemoryError", Status.OUTPUT_LIMIT: "OutputLimitExceeded",
        Status.SIGNALED: "ProcessCrashed", Status.RESULT_INVALID: "SandboxBroken",
    }
    name = names.get(document.get("status", ""))
    if name is None:
        return None
    loops = sorted((loop for loop in document.get("loops") or [] if loop["iterations"] > loop_threshold), key=lambda loop: -int(loop["iterations"]))
    log = document.get("trace_log") or []
    # Where it was when it was stopped: in its busiest loop if that is a suspect, or else where the log ends, as of what waits.
    place = loops[0] if loops and document["status"] == Status.TIME_LIMIT else (log[-1] if log else {})
    return _exception(f"{name}: {document.get('error') or document.get('headline')}", place.get("line"), place.get("function"), place.get("file"))


def to_execution_trace(result: Result, **overrides: Any) -> dict[str, Any]:
    """Return what a run tells of the fields of ExecutionTrace, as keyword arguments.

    step_count, llm_latency_ms and rule_match_count are of Execra's pipeline, not of the program: they keep their defaults
    unless they are given here.
    """
    wall, cpu = result.usage.get("wall_ms", 0), result.usage.get("cpu_ms", 0)
    summary = result.summary or {}
    warnings, threads = summary.get("warnings"), int(summary.get("thread_exceptions_total") or 0)
    found: dict[str, Any] = {
        "duration_ms": float(wall), "cpu_percent": min(100.0, round(100.0 * cpu / wall, 1)) if wall else 0.0,
        "memory_mb": round(result.usage.get("max_memory_bytes", 0) / (1 << 20), 1),
        "error_count": int(result.status not in (Status.OK, Status.CANCELED)) + threads,
        "warning_count": len(_WARNING.findall(result.stderr)) if warnings is None else int(warnings),
    }
    found.update(overrides)
    return found
