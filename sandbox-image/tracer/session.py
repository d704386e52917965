"""The way from an empty interpreter to one that is ready to run the program."""

from __future__ import annotations

import os

from . import control, process
from .memory import Memory


def begin() -> None:
    """Report ready, take the order, and arrange everything for the program. Blocks in between."""
    if not process.is_replacement():
        control.report_ready()
    order = control.read_order()
    if order.entrypoint != process.DEFAULT_ENTRYPOINT and not process.is_replacement():
        control.keep_order(order)
        process.replace(order)
    Memory(control.MEMORY_FD, order.size, order.areas)
    os.close(control.MEMORY_FD)
    os.close(control.CONTROL_FD)
    process.dress(order)
    process.set_limits(order)
