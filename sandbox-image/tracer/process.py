"""What the program finds around it: limits, arguments, streams, and nothing of the tracer."""

from __future__ import annotations

import os
import sys
from _frozen_importlib_external import PathFinder

from . import _recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .control import Order

TRACER_PATH = "/usr/lib/tracefleet"
OPTION = "tracefleet"

_no_importers: dict[str, Any] = {}
"""The file to run, when it is known that no importer takes it: the interpreter need not read it to find that out."""


def look_ahead() -> None:
    """Do now what ``site`` does last, when the job is there: look in vain for the modules that customize an interpreter.

    What the search leaves in the importers' caches it leaves now. Where there is such a module, ``site`` loads it as ever,
    and the interpreter looks itself whether the file to run is an archive.
    """
    site = vars(sys.modules["site"])
    steps = ["execsitecustomize", "execusercustomize"] if site["ENABLE_USER_SITE"] else ["execsitecustomize"]
    if not any(PathFinder.find_spec(step.removeprefix("exec")) for step in steps):
        places = [path for path in sys.path if path != TRACER_PATH]
        for step in steps:
            site[step] = _passed(site, step, places, sys.path_hooks[:])


def _passed(site: dict[str, Any], step: str, places: list[str], hooks: list[Any]) -> Callable[[], None]:
    """Return what stands for a step of ``site`` once, while there are no more places to look in."""
    original = site[step]

    def passed() -> None:
        site[step] = original
        if sys.path != places:
            original()
        elif sys.path_hooks == hooks:
            sys.path_importer_cache.update(_no_importers)

    return passed


def set_limits(order: Order) -> None:
    """Apply the limits that a process can only set for itself; none of them can be raised again."""
    _recorder.limit(order.open_files, order.file_bytes, order.cpu_s, order.nproc)


def dress(order: Order) -> None:
    """Have the order's file run, make ``sys`` look as after ``python3 ENTRYPOINT ARGS``, and hide the way the tracer came in."""
    path = f"{os.getcwd()}/{order.entrypoint}"
    _recorder.run_instead(order.entrypoint, path)
    if order.no_archive:
        _no_importers[path] = None
    sys.argv[:] = [order.entrypoint, *order.args]
    sys.orig_argv[:] = ["python3", order.entrypoint, *order.args]
    sys._xoptions.pop(OPTION, None)
    if TRACER_PATH in sys.path:
        sys.path.remove(TRACER_PATH)
    for path in [path for path in sys.path_importer_cache if path.startswith(TRACER_PATH)]:
        del sys.path_importer_cache[path]
    # Line by line, so that a killed program keeps its lines.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
