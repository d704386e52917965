"""Looks at objects without running a line of the program's code.

Types are compared with ``is``; attributes come from the descriptors of C types, applied to the
object; a user class is only looked at through the descriptors of ``type``; containers are read by the
methods of the builtin type they are or inherit from. Names are used only when they are exactly
``str``: a subclass could answer for itself.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
    from typing import Any
else:  # the module types would have to be read from a file
    FunctionType, ModuleType = type(lambda: None), type(sys)
    GetSetDescriptorType, MemberDescriptorType = type(FunctionType.__code__), type(FunctionType.__globals__)

IMMUTABLE_TYPE = 1 << 8
"""Type flag that only types written in C can have."""

_getters: Any = vars(type)
_module_getters: Any = vars(ModuleType)
mro_of: Callable[[type], tuple[type, ...]] = _getters["__mro__"].__get__
dict_of: Callable[[type], Any] = _getters["__dict__"].__get__
bases_of: Callable[[type], tuple[type, ...]] = _getters["__bases__"].__get__
flags_of: Callable[[type], int] = _getters["__flags__"].__get__
args_of: Callable[[BaseException], tuple[Any, ...]] = vars(BaseException)["args"].__get__
_name_of: Callable[[type], Any] = _getters["__name__"].__get__
_qualname_of: Callable[[type], Any] = _getters["__qualname__"].__get__
_module_of: Callable[[type], Any] = _getters["__module__"].__get__
_module_dict: Callable[[ModuleType], dict[Any, Any]] = _module_getters["__dict__"].__get__


def text(name: Any) -> str:
    """Return a name that the program may have made, or "?" when it is not exactly a string."""
    return name if type(name) is str else "?"


def type_name(kind: type) -> str:
    """Return the name of a type."""
    return text(_name_of(kind))


def full_name(kind: type) -> str:
    """Return the name of a type as tracebacks print it: with its module unless that goes without saying."""
    try:
        module = text(_module_of(kind))
    except AttributeError:
        module = "?"
    name = text(_qualname_of(kind))
    return name if module in ("builtins", "__main__") else f"{module}.{name}"


def module_name(module: ModuleType) -> str:
    """Return the name of a module."""
    return text(_module_dict(module).get("__name__"))


def is_in_c(kind: type) -> bool:
    """Whether a type is written in C, so that its own methods are not the program's."""
    return flags_of(kind) & IMMUTABLE_TYPE != 0


def inherits(kind: type, base: type) -> bool:
    """Whether a type is or inherits from another, without asking ``__subclasscheck__``."""
    return any(entry is base for entry in mro_of(kind))


def find_in_c(kind: type, module: str, names: tuple[str, ...]) -> type | None:
    """Return the first type in the inheritance that is written in C and has the module and one of the names.

    By name, because the program's copy of an extension module may be another than ours.
    """
    for base in mro_of(kind):
        if is_in_c(base) and _name_of(base) in names and _module_of(base) == module:
            return base
    return None


def instance_dict(value: Any) -> dict[Any, Any] | None:
    """Return the dictionary of an instance, past any ``__dict__`` or ``__getattribute__`` of its class."""
    for base in mro_of(type(value)):
        found = dict_of(base).get("__dict__")
        if type(found) is GetSetDescriptorType and found.__objclass__ is base:
            held = found.__get__(value)
            return held if type(held) is dict else None
    return None


def slots(value: Any) -> Iterable[tuple[Any, Any]]:
    """Yield name and value of the filled slots (``__slots__``) of an instance."""
    for base in mro_of(type(value)):
        names = dict_of(base)
        if "__slots__" not in names:
            continue
        for name, member in names.items():
            if type(member) is MemberDescriptorType and member.__objclass__ is base:
                try:
                    yield name, member.__get__(value)
                except AttributeError:
                    continue


def is_data(item: Any) -> bool:
    """Whether an attribute of a class is data rather than a method or a descriptor."""
    kind = type(item)
    return not (
        kind is FunctionType
        or kind is staticmethod
        or kind is classmethod
        or kind is property
        or kind is GetSetDescriptorType
        or kind is MemberDescriptorType
    )


def container(kind: type) -> type | None:
    """Return the builtin container that a class is or inherits from, ``deque`` included."""
    for base in mro_of(kind):
        if base is dict or base is list or base is tuple or base is set or base is frozenset:
            return base
    return find_in_c(kind, "collections", ("deque",))


def contained(value: Any, base: Any, limit: int) -> list[Any]:
    """Return the first items of a container; of a dictionary they are pairs."""
    items = dict.items(value) if base is dict else base.__iter__(value)
    return [item for _, item in zip(range(limit), items, strict=False)]


def field_names(kind: type) -> tuple[Any, ...] | None:
    """Return the field names of a named tuple's type."""
    fields = dict_of(kind).get("_fields")
    return fields if type(fields) is tuple else None


def plain(value: Any, limit: int) -> Any:
    """Return what an instance of a subclass of ``int``, ``float``, ``str`` or ``bytes`` holds, or None."""
    kind = type(value)
    if inherits(kind, int):
        return int.__int__(value)
    if inherits(kind, float):
        return float.__float__(value)
    if inherits(kind, str):
        return str.__getitem__(value, slice(0, limit))
    if inherits(kind, bytes):
        return bytes.__getitem__(value, slice(0, limit))
    return None


def moment(value: Any, base: Any) -> str:
    """Return a ``datetime`` or ``time`` in ISO form without asking its time zone, which may be the program's."""
    field = {name: dict_of(base)[name].__get__(value) for name in ("hour", "minute", "second", "microsecond")}
    clock = f"{field['hour']:02}:{field['minute']:02}:{field['second']:02}"
    if field["microsecond"]:
        clock += f".{field['microsecond']:06}"
    if _name_of(base) == "time":
        return clock
    date = mro_of(base)[1]
    year, month, day = (dict_of(date)[name].__get__(value) for name in ("year", "month", "day"))
    return f"{year:04}-{month:02}-{day:02} {clock}"
