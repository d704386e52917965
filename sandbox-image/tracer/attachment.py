"""The tracer's place in the interpreter: one tool of ``sys.monitoring`` with its callbacks."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

TOOL = 4
"""Tool id of ``sys.monitoring``: one that no known tool claims."""
NAME = "tracefleet"

get_events, set_events = sys.monitoring.get_events, sys.monitoring.set_events
get_tool, use_tool_id, register_callback = (
    sys.monitoring.get_tool, sys.monitoring.use_tool_id, sys.monitoring.register_callback
)


class Attachment:
    """Registers callbacks, and can tell whether the program left them alone."""

    def __init__(self, callbacks: dict[int, Callable[..., Any]]) -> None:
        """``callbacks`` are by event."""
        self._callbacks = callbacks

    def start(self, mask: int) -> None:
        """Attach to the interpreter; ``mask`` are the events of all code, others are switched on by code. Raises ``ValueError`` when the tool id is taken."""
        use_tool_id(TOOL, NAME)
        for event, callback in self._callbacks.items():
            register_callback(TOOL, event, callback)
        set_events(TOOL, mask)

    def stop(self, mask: int) -> bool:
        """Detach, and say whether everything was still in place: the events of all code are to be ``mask``.

        Events of single code objects stay switched on, but reach nobody.
        """
        intact = get_tool(TOOL) == NAME and get_events(TOOL) == mask
        for event, callback in self._callbacks.items():
            intact &= register_callback(TOOL, event, None) == callback
        if intact:
            set_events(TOOL, 0)
        return intact
