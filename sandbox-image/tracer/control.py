"""The control channel: one line out when ready, one line in with the order, one byte out when the program starts."""

from __future__ import annotations

import os
import sys

from _json import make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TRACER = "c/1"
CONTROL_FD = 3
MEMORY_FD = 4
MAX_ORDER_BYTES = 8 << 20
PASS_AFTER = 64
"""Hits after which a line's event need not come where the next one tells; negative: it always comes. Tests order others."""
BURST_MS = 500
"""Processor time between bursts of events, once exact counting is over. Tests order others."""
CHUNK_BYTES = 1 << 12
"""Of the order at once: as a rule all of it, and not so much that memory for it would have to be got from the kernel."""


class OrderError(ValueError):
    """The order is not what the supervisor promises to send."""


class _Scanner:
    """What the C scanner of ``json`` wants to know; ``json`` itself would cost 6 ms to import."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


class Order:
    """What to run and how much to record. Sizes are in bytes, times in milliseconds."""

    def __init__(self, text: str) -> None:
        """Parse one JSON line; raises ``OrderError`` when a field is missing or of another type."""
        try:
            raw: dict[str, Any] = make_scanner(_Scanner)(text, 0)[0]  # type: ignore[arg-type]
        except (ValueError, StopIteration) as error:
            raise OrderError(f"order is not JSON: {error}") from None
        if type(raw) is not dict:
            raise OrderError("order is not an object")
        self.entrypoint: str = _field(raw, "entrypoint", str)
        self.no_archive: bool = _field(raw, "no_archive", bool, False)
        self.args: list[str] = _field(raw, "args", list, [])
        self.mode: str = _field(raw, "mode", str)
        self.values: bool = _field(raw, "values", bool, True)
        self.include: list[str] = _field(raw, "include", list, ["."])
        self.events: int = _field(raw, "events", int)
        self.size: int = _field(raw, "size", int)
        self.areas: list[tuple[int, int]] = [
            (_field(area, "offset", int), _field(area, "capacity", int)) for area in _field(raw, "areas", list)
        ]
        self.open_files: int = _field(raw, "open_files", int)
        self.file_bytes: int = _field(raw, "file_bytes", int)
        self.cpu_s: int = _field(raw, "cpu_s", int)
        self.nproc: int = _field(raw, "nproc", int, -1)
        self.pass_after: int = _field(raw, "pass_after", int, PASS_AFTER)
        self.exact_ms: int = _field(raw, "exact_ms", int, max(self.cpu_s - 2, 1) * 250)
        self.cpu_ms: int = _field(raw, "cpu_ms", int, max(self.cpu_s - 2, 1) * 1000)
        self.wall_end_ms: int = _field(raw, "wall_end_ms", int, 0)
        self.burst_ms: int = _field(raw, "burst_ms", int, BURST_MS)


def _field(raw: dict[str, Any], name: str, kind: type, default: Any = None) -> Any:
    """Return the field, or the default when it is absent and there is one."""
    value = raw.get(name, default)
    if type(value) is not kind:
        raise OrderError(f"{name}: want {kind.__name__}")
    return value


def version() -> str:
    """Return the interpreter's version, as in ``3.13.5``."""
    return "%d.%d.%d" % sys.version_info[:3]


def report_ready() -> None:
    """Tell the supervisor that the interpreter is up."""
    _write_all(CONTROL_FD, f'{{"python":"{version()}","tracer":"{TRACER}"}}\n'.encode())


def report_start() -> None:
    """Tell the supervisor that the program runs from here on, and close the channel.

    The supervisor takes an exit without it for a failure of the tracer, which the program cannot bring about.
    """
    _write_all(CONTROL_FD, b"!")
    os.close(CONTROL_FD)


def read_order() -> Order:
    """Block until the order's line is complete; raises ``OrderError`` at end of file."""
    line = bytearray()
    while not line.endswith(b"\n"):
        chunk = os.read(CONTROL_FD, CHUNK_BYTES)
        if not chunk or len(line) + len(chunk) > MAX_ORDER_BYTES:
            raise OrderError("no order came" if not chunk else "the order is too long")
        line += chunk
    return Order(line.decode("utf-8"))


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
