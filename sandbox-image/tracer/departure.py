"""Leaving without taking the interpreter to pieces first, where nobody could tell the difference.

At its end the interpreter destroys every module and object, which takes as long as a small program and
ends in the same way: the process is gone. It can be noticed only by what runs meanwhile: ``__del__``,
callbacks of weak references, suspended generators with a ``finally``, files that are written out, audit
hooks, threads. So a program that leaves nothing but objects that die in silence need not wait for it.
"""

from __future__ import annotations

import gc
import sys
from _thread import _count as threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

IMMUTABLE = 1 << 8
"""Bit of a class's flags: nobody can give it a ``__del__``."""

_objects, _debug, _callbacks = gc.get_objects, gc.get_debug, gc.callbacks
_getters: Any = vars(type)
_content: Callable[[type], Any] = _getters["__dict__"].__get__
_flags: Callable[[type], int] = _getters["__flags__"].__get__
_heirs: Callable[[type], list[type]] = type.__subclasses__


def _below(base: type) -> set[type]:
    """Return the classes that inherit from ``base``: an eighth of the time that it takes to look at all objects for them."""
    classes: set[type] = set()
    waiting = [base]
    while waiting:
        heirs = [kind for kind in _heirs(waiting.pop()) if kind not in classes]
        classes.update(heirs)
        waiting += heirs
    return classes


# The interpreter's own classes whose objects the collector does not show any more.
_classes = [kind for kind in _below(object) if not _flags(kind) & IMMUTABLE and "__del__" not in _content(kind)]

# What a program without classes of its own leaves.
_silent: set[type] = {dict, list, tuple, set, frozenset, type(sys), type(lambda: None), type(threads)}
# What the interpreter makes to start it.
_started = {
    "_frozen_importlib": ("ModuleSpec",),
    "_frozen_importlib_external": ("FileFinder", "SourceFileLoader"),
    "_sitebuiltins": ("Quitter", "_Helper", "_Printer"),
}


def silent() -> set[type]:
    """Return the kinds of objects that there are now, and those that are known to die in silence."""
    started = {vars(sys.modules[module])[name] for module, names in _started.items() for name in names}
    now: set[type] = set(map(type, _objects()))
    return now | _silent | started


class Streams:
    """The interpreter's own standard streams, as they were before the program."""

    def __init__(self) -> None:
        """Take those that are there."""
        self._streams: tuple[Any, ...] = (sys.stdout, sys.stderr)

    def write_out(self) -> bool:
        """Write out what they hold, and let go of them. Works once.

        Returns false when they are not as they were, or something could not be written: the
        interpreter tries that again, and says what it is.
        """
        streams, self._streams = self._streams, ()
        variables = vars(sys)
        if not streams or variables.get("stdout") is not streams[0] or variables.get("stderr") is not streams[1]:
            return False
        try:
            for stream in streams:
                for file in (stream, stream.buffer, stream.buffer.raw):
                    if vars(file).keys() - {"name", "mode"}:
                        return False  # a method of the program's own
                stream.flush()
        except Exception:
            return False
        return True


def unnoticed(known: set[type], seen: type) -> bool:
    """Whether nothing of the program would run while the interpreter is taken to pieces.

    ``seen`` is the kind of an object that the collector shows unless the program has frozen what there is.
    """
    kinds: set[type] = set(map(type, _objects()))
    return (
        not _callbacks and not _debug() and not threads()
        and seen in kinds and known.issuperset(kinds)
        and not any("__del__" in _content(kind) for kind in _classes)
    )
