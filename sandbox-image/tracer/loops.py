"""Finds the loops of a code object in its bytecode, and where to count how often a body is entered.

Bytecode rather than source: it is there for every code object, costs nothing to parse, and a
recorder in C can do the same. Facts about CPython 3.13 that this rests on: every `for` is a
FOR_ITER that falls through into the body and to which JUMP_BACKWARD returns; a `while` tests at its
top, runs its body, tests again at the bottom and jumps back to the body, while `continue` jumps to
the top test; an inlined comprehension builds its list, set or dict just before its FOR_ITER; the
first instruction of a line that differs from the one before it has a LINE event each time it runs.
"""

from __future__ import annotations

from _opcode_metadata import opmap  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

JUMP_BACKWARD, FOR_ITER, GET_ANEXT, GET_ITER, SWAP, NOP, CACHE, EXTENDED_ARG = (
    opmap[name]
    for name in ("JUMP_BACKWARD", "FOR_ITER", "GET_ANEXT", "GET_ITER", "SWAP", "NOP", "CACHE", "EXTENDED_ARG")
)
BUILDS = frozenset(opmap[name] for name in ("BUILD_LIST", "BUILD_SET", "BUILD_MAP"))
STORES = frozenset(number for name, number in opmap.items() if name.startswith("STORE_"))
TESTS = frozenset(number for name, number in opmap.items() if name.startswith("POP_JUMP_IF_"))
ENDS = STORES | {opmap[name] for name in ("POP_TOP", "RESUME", "END_FOR", "JUMP_FORWARD")} | {NOP, JUMP_BACKWARD}
"""Instructions that end a statement, so that none of them is part of a loop's test."""

COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


class Loop:
    """A loop: the line of its header, and how the entries of its body are seen.

    ``body_line`` and ``body`` are the line and offset of the body's first instruction when it is on
    a line of its own. Otherwise ``body_line`` is 0 and entries are the branches and jumps that
    arrive at the offset ``body`` (of a `for`: at ``body`` from its FOR_ITER), and, when
    ``entered_by_line``, also each LINE event of the header.
    """

    __slots__ = ("body", "body_line", "entered_by_line", "line")

    def __init__(self, line: int, body_line: int, body: int, entered_by_line: bool = False) -> None:
        """Keep the facts."""
        self.line = line
        self.body_line = body_line
        self.body = body
        self.entered_by_line = entered_by_line


class _Listing:
    """The instructions of a code object: offsets, opcodes, arguments and lines, by index."""

    def __init__(self, code: CodeType) -> None:
        self.offsets: list[int] = []
        self.ops: list[int] = []
        self.args: list[int] = []
        self.lines: list[int] = []
        ranges = iter(code.co_lines())
        end, line = -1, 0
        raw = code.co_code
        extended = 0
        for offset in range(0, len(raw), 2):
            op = raw[offset]
            if op == CACHE:
                continue
            arg = raw[offset + 1] | extended << 8
            if op == EXTENDED_ARG:
                extended = arg
                continue
            extended = 0
            while offset >= end:
                _, end, maybe = next(ranges)
                line = maybe or 0
            self.offsets.append(offset)
            self.ops.append(op)
            self.args.append(arg)
            self.lines.append(line)

    def is_comprehension(self, index: int) -> bool:
        """Whether the FOR_ITER at the index is the first one of an inlined comprehension."""
        before = index - 1 - (self.ops[index - 1] == GET_ITER)
        return before > 0 and self.ops[before] == SWAP and self.ops[before - 1] in BUILDS


def find(code: CodeType) -> list[Loop]:
    """Return the loops of the code object, comprehensions left out."""
    if code.co_name in COMPREHENSIONS or JUMP_BACKWARD not in code.co_code[::2]:
        return []
    listing = _Listing(code)
    at = {offset: index for index, offset in enumerate(listing.offsets)}
    found: list[Loop] = []
    targets: set[int] = set()
    inside = 0  # end of the comprehension that we are in
    for index, op in enumerate(listing.ops):
        offset = listing.offsets[index]
        if op == FOR_ITER and offset >= inside:
            if listing.is_comprehension(index):
                inside = offset + 4 + 2 * listing.args[index]
            else:
                found.append(_for_loop(listing, index))
        elif op == JUMP_BACKWARD:
            target = at.get(offset + 4 - 2 * listing.args[index])
            if target is not None:
                targets.add(target)
    for target in sorted(targets, reverse=True):
        if listing.ops[target] == GET_ANEXT:
            found.append(_for_loop(listing, target))
        elif listing.ops[target] != FOR_ITER and target in targets:
            found.append(_while_loop(listing, target, targets))
    return found


def _for_loop(listing: _Listing, index: int) -> Loop:
    """Return the `for` or `async for` whose FOR_ITER or GET_ANEXT is at the index."""
    after = index + 1
    header = {listing.lines[index], listing.lines[after]}
    line = min(header - {0}, default=0)
    is_async = listing.ops[index] == GET_ANEXT
    for body in range(after, len(listing.ops)):
        if listing.lines[body] in header or (is_async and listing.ops[body - 1] not in STORES):
            continue
        if listing.ops[body - 1] in STORES:
            return Loop(line, listing.lines[body], listing.offsets[body])
        break
    return Loop(line, 0, listing.offsets[after])


def _while_loop(listing: _Listing, body: int, targets: set[int]) -> Loop:
    """Return the `while` with the backward jump to the index; drops its top test from the targets."""
    previous = body - 1
    if listing.ops[previous] == NOP and listing.lines[previous] != listing.lines[body]:
        return Loop(listing.lines[previous], listing.lines[body], listing.offsets[body])
    if listing.ops[previous] not in TESTS:
        return _while_without_bottom(listing, body)
    line = listing.lines[previous]
    test = previous
    while test > 0 and listing.ops[test - 1] not in ENDS:
        test -= 1
        line = min(line, listing.lines[test] or line)
    targets.difference_update(range(test, body))
    body_line = listing.lines[body]
    if body_line == listing.lines[previous]:
        return Loop(line, 0, listing.offsets[body])
    return Loop(line, body_line, listing.offsets[body])


def _while_without_bottom(listing: _Listing, top: int) -> Loop:
    """Return a `while` of which only the top is jumped to.

    Either it is a one-line `while True`, or every way through its body ends in `continue`, `break`
    or `return`, and the top is its test.
    """
    line = listing.lines[top]
    for index in range(top + 1, len(listing.ops)):
        if listing.lines[index] == line:
            continue
        if listing.ops[index - 1] in TESTS:
            return Loop(line, listing.lines[index], listing.offsets[index])
        break
    return Loop(line, 0, listing.offsets[top], entered_by_line=True)
