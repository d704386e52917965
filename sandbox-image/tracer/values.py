"""Turns values into bounded JSON. ``raw`` keeps the program's code from running.

The encoding is Python Tutor's (OPT v3) with the bounded tags of execution-trace/1; the table is in
docs/trace-format.md. It is text from the start: texts are cheap to compare, so what changed since
the last event is exact (``1``, ``1.0`` and ``true`` differ), and nothing of the program is kept alive.
"""

from __future__ import annotations

from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from _json import encode_basestring_ascii as quote

from . import raw
from .memory import SHORTENED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Found = list[tuple[int, Any]]

MAX_ITEMS = 8
MAX_TEXT = 80
MAX_BYTES = 40
MAX_BITS = 256
SAFE = (1 << 53) - 1
"""The largest integer that every JSON reader keeps exact."""


class Encoder:
    """Encodes values; remembers each object's reference number and what was last said of it.

    Numbers go by address and type, so an object at the address of a dead one of the same type takes
    over its number.
    """

    def __init__(self, counters: memoryview[int]) -> None:
        """``counters`` counts the values shown shortened."""
        self._counters = counters
        self._numbers: dict[int, tuple[int, int]] = {}
        self._next = 1
        self._said: dict[int, str] = {}

    def encode(self, value: Any, found: Found) -> str:
        """Return the JSON of a value; an object that the heap describes is appended to ``found``."""
        kind = type(value)
        if kind is int:
            return int.__repr__(value) if -SAFE <= value <= SAFE else self._big(value)
        if kind is str:
            return quote(value) if len(value) <= MAX_TEXT else self._text(value)
        if value is None:
            return "null"
        if kind is bool:
            return "true" if value else "false"
        if kind is float:
            return _float(value)
        if kind is bytes:
            return self._bytes(value, len(value))
        if kind is FunctionType:
            return f'["FUNCTION",{_short(value.__qualname__)}]'
        if kind is MethodType:
            function = value.__func__
            return f'["FUNCTION",{_short(function.__qualname__ if type(function) is FunctionType else "?")}]'
        if kind is BuiltinFunctionType:
            return f'["FUNCTION",{_short(value.__name__)}]'
        if kind is ModuleType:
            return f'["module",{_short(raw.module_name(value))}]'
        address = id(value)
        number, mark = self._numbers.get(address, (0, 0))
        if mark != id(kind):
            number = self._next
            self._next = number + 1
            self._numbers[address] = (number, id(kind))
        found.append((number, value))
        return f'["REF",{number}]'

    def heap(self, found: Found, limit: int) -> list[str]:
        """Describe objects, and those directly in them, as far as what was last said differs.

        ``limit`` bounds how many objects are looked at. The outcome alternates numbers and JSON.
        """
        seen: set[int] = set()
        changes: list[str] = []
        inner: Found = []
        for level in (found, inner):
            for number, value in level:
                if number in seen:
                    continue
                if len(seen) >= limit:
                    self._counters[SHORTENED] += 1
                    return changes
                seen.add(number)
                text = self._content(value, inner if level is found else [])
                if self._said.get(number) != text:
                    self._said[number] = text
                    changes += (str(number), text)
        return changes

    def clear(self) -> None:
        """Forget what was said, to free its memory."""
        self._numbers.clear()
        self._said.clear()

    def _content(self, value: Any, found: Found) -> str:
        """Return the JSON of an object's direct content; objects in it are appended to ``found``."""
        kind = type(value)
        if kind is list:
            return self._sequence('"LIST"', value, len(value), found)
        if kind is dict:
            return self._pairs('"DICT"', value.items(), len(value), found)
        if kind is tuple:
            return self._sequence('"TUPLE"', value, len(value), found)
        if kind is set or kind is frozenset:
            return self._sequence('"SET"', value, len(value), found)
        if kind is bytearray:
            return self._bytes(bytes(value[:MAX_BYTES]), len(value))
        if kind is complex or kind is range:
            return f'["INSTANCE_PPRINT","{raw.type_name(kind)}",{_short(repr(value))}]'
        if raw.inherits(kind, type):
            return self._class(value, found)
        return self._instance(value, kind, found)

    def _sequence(self, tag: str, items: Iterable[Any], size: int, found: Found) -> str:
        parts = [tag, *[self.encode(item, found) for item in islice(items, MAX_ITEMS)]]
        return self._closed(parts, size)

    def _pairs(self, head: str, items: Iterable[tuple[Any, Any]], size: int, found: Found) -> str:
        parts = [head]
        for key, item in islice(items, MAX_ITEMS):
            parts.append(f"[{self.encode(key, found)},{self.encode(item, found)}]")
        return self._closed(parts, size)

    def _closed(self, parts: list[str], size: int) -> str:
        if size > MAX_ITEMS:
            self._counters[SHORTENED] += 1
            parts.append(f'["ELIDED",{size - MAX_ITEMS}]')
        return f"[{','.join(parts)}]"

    def _class(self, value: type, found: Found) -> str:
        bases = ",".join([_short(raw.type_name(base)) for base in raw.bases_of(value)[:MAX_ITEMS]])
        shown = [
            (name, item)
            for name, item in raw.dict_of(value).items()
            if type(name) is str and name[:2] != "__" and raw.is_data(item)
        ]
        return self._pairs(f'"CLASS",{_short(raw.type_name(value))},[{bases}]', shown, len(shown), found)

    def _instance(self, value: Any, kind: type, found: Found) -> str:
        name = _short(raw.type_name(kind))
        printed = _printed(value, kind)
        if printed is not None:
            return f'["INSTANCE_PPRINT",{name},{_short(printed)}]'
        head = f'"INSTANCE",{name}'
        pairs: list[tuple[Any, Any]] = []
        size = 0
        base: Any = raw.container(kind)
        if raw.inherits(kind, BaseException):
            pairs, size = [("args", raw.args_of(value))], 1
        elif base is tuple and (fields := raw.field_names(kind)) is not None:
            pairs = list(zip(fields, raw.contained(value, base, MAX_ITEMS), strict=False))
            size = len(fields)
        elif base is not None:
            head += f',["items",{self._items(value, base, found)}]'
        elif (held := raw.plain(value, MAX_TEXT + 1)) is not None:
            pairs, size = [("value", held)], 1
        attributes = raw.instance_dict(value)
        if attributes is not None:
            if "_name_" in attributes and "_value_" in attributes:  # an enum's member
                attributes = {"name": attributes["_name_"], "value": attributes["_value_"]}
                pairs, size = [], 0
            size += len(attributes)
            pairs += islice(attributes.items(), MAX_ITEMS)
        filled = list(islice(raw.slots(value), MAX_ITEMS + 1))
        return self._pairs(head, pairs + filled, size + len(filled), found)

    def _items(self, value: Any, base: Any, found: Found) -> str:
        """Return what an instance of a container's subclass holds, as its base would be shown."""
        items = raw.contained(value, base, MAX_ITEMS)
        size = base.__len__(value)
        if base is dict:
            return self._pairs('"DICT"', items, size, found)
        tag = '"TUPLE"' if base is tuple else '"SET"' if base is set or base is frozenset else '"LIST"'
        return self._sequence(tag, items, size, found)

    def _text(self, value: str) -> str:
        self._counters[SHORTENED] += 1
        return f'["STR",{quote(value[:MAX_TEXT])},{len(value)}]'

    def _bytes(self, value: bytes, size: int) -> str:
        if size > MAX_BYTES:
            self._counters[SHORTENED] += 1
        return f'["BYTES","{value[:MAX_BYTES].hex()}",{size}]'

    def _big(self, value: int) -> str:
        bits = value.bit_length()
        if bits <= MAX_BITS:
            return f'["BIGINT","{int.__repr__(value)}"]'
        self._counters[SHORTENED] += 1
        return f'["BIGINT",{bits if value > 0 else -bits}]'


def _short(name: Any) -> str:
    """Return a name as JSON, cut to the length of a shown text."""
    return quote(name[:MAX_TEXT]) if type(name) is str else '"?"'


def _float(value: float) -> str:
    if value != value:
        return '["SPECIAL_FLOAT","NaN"]'
    if value - value != 0:
        return '["SPECIAL_FLOAT","Infinity"]' if value > 0 else '["SPECIAL_FLOAT","-Infinity"]'
    return float.__repr__(value)


def _printed(value: Any, kind: type) -> str | None:
    """Return the text of a number or time of the standard library that is written in C, else None."""
    base: Any = raw.find_in_c(kind, "decimal", ("Decimal",))
    if base is not None:
        return base.__str__(value) if base.adjusted(value) < MAX_TEXT else f"about 1E{base.adjusted(value)}"
    base = raw.find_in_c(kind, "datetime", ("datetime", "date", "time", "timedelta"))
    if base is None:
        return None
    what = raw.type_name(base)
    if what == "date":
        return str(base.isoformat(value))
    return str(base.__str__(value)) if what == "timedelta" else raw.moment(value, base)
