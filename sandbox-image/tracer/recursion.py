"""Gives the tracer's callbacks the one frame they need, without the program noticing.

A callback written in Python takes a frame of the recursion limit. The limit is raised by that one
frame, and what the program asks of ``sys`` about its limit is answered as if it were not.
"""

from __future__ import annotations

import sys

ROOM = 1


def make_room() -> None:
    """Raise the recursion limit by ``ROOM`` and keep it so through the program's own changes."""
    get_limit, set_limit = sys.getrecursionlimit, sys.setrecursionlimit

    def getrecursionlimit() -> int:
        """Return the current value of the recursion limit.

        The recursion limit is the maximum depth of the Python interpreter
        stack.  This limit prevents infinite recursion from causing an overflow
        of the C stack and crashing Python.
        """
        return get_limit() - ROOM

    def setrecursionlimit(limit: int, /) -> None:
        """Set the maximum depth of the Python interpreter stack to n.

        This limit prevents infinite recursion from causing an overflow of the C
        stack and crashing Python.  The highest possible limit is platform-
        dependent.
        """
        set_limit(limit + ROOM if type(limit) is int and 0 < limit < MAX_LIMIT else limit)

    set_limit(get_limit() + ROOM)
    sys.getrecursionlimit, sys.setrecursionlimit = getrecursionlimit, setrecursionlimit


MAX_LIMIT = (1 << 31) - 1 - ROOM
