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
    """The instructions of a code object, by index: offset, start, opcode, argument and line.

    ``starts`` differ from ``offsets`` where an argument is extended: an instruction starts, for jumps
    and for LINE events, at the first EXTENDED_ARG before it.
    """

    def __init__(self, code: CodeType) -> None:
        self.offsets: list[int] = []
        self.starts: list[int] = []
        self.ops: list[int] = []
        self.args: list[int] = []
        self.lines: list[int] = []
        ranges = iter(code.co_lines())
        end, line = -1, 0
        raw = code.co_code
        start, extended = -1, 0
        for offset in range(0, len(raw), 2):
            op = raw[offset]
            if op == CACHE:
                continue
            if start < 0:
                start = offset
            arg = raw[offset + 1] | extended << 8
            if op == EXTENDED_ARG:
                extended = arg
                continue
            while offset >= end:
                _, end, maybe = next(ranges)
                line = maybe or 0
            self.offsets.append(offset)
            self.starts.append(start)
            self.ops.append(op)
            self.args.append(arg)
            self.lines.append(line)
            start, extended = -1, 0
        self._at = {start: index for index, start in enumerate(self.starts)}

    def jumps_back(self) -> list[tuple[int, int]]:
        """Return the indexes of each backward jump and of its target."""
        jumps = []
        for index, op in enumerate(self.ops):
            if op == JUMP_BACKWARD:
                target = self._at.get(self.offsets[index] + 4 - 2 * self.args[index])
                if target is not None:
                    jumps.append((index, target))
        return jumps

    def is_comprehension(self, index: int) -> bool:
        """Whether the FOR_ITER or GET_ANEXT at the index is the first one of an inlined comprehension."""
        before = index - 1 - (self.ops[index - 1] == GET_ITER)
        return before > 0 and self.ops[before] == SWAP and self.ops[before - 1] in BUILDS

    def is_bottom(self, jump: int, target: int) -> bool:
        """Whether a backward jump is the one with which a `while` goes from its last line to its body.

        It has the header's line. On the line of a body of one line, only the jump after a test is one.
        """
        line = self.lines[jump]
        if line == self.lines[target]:
            return self.ops[jump - 1] in TESTS
        return 0 < line < self.lines[target]


def find(code: CodeType) -> list[Loop]:
    """Return the loops of the code object, comprehensions left out."""
    if code.co_name in COMPREHENSIONS or JUMP_BACKWARD not in code.co_code[::2]:
        return []
    listing = _Listing(code)
    jumps = listing.jumps_back()
    ends = {target: jump for jump, target in jumps}
    found: list[Loop] = []
    inside = -1  # index of the end of the comprehension that we are in
    for index, op in enumerate(listing.ops):
        if index < inside or (op != FOR_ITER and (op != GET_ANEXT or index not in ends)):
            continue
        if listing.is_comprehension(index):
            inside = ends.get(index, index)
        else:
            found.append(_for_loop(listing, index, ends))
    return found + _whiles(listing, [jump for jump in jumps if listing.ops[jump[1]] not in (FOR_ITER, GET_ANEXT)])


def _whiles(listing: _Listing, jumps: list[tuple[int, int]]) -> list[Loop]:
    """Return the `while` loops with these backward jumps."""
    found: dict[int, Loop] = {}
    bodies: dict[int, int] = {}  # by the line of the header, the last body
    for jump, target in jumps:
        if listing.is_bottom(jump, target):
            loop = found[target] = _while_loop(listing, jump, target)
            bodies[loop.line] = max(target, bodies.get(loop.line, 0))
    for _, target in jumps:
        # A jump to the top test, before the body, is a `continue`.
        if target not in found and target >= bodies.get(listing.lines[target], 0):
            found[target] = _while_without_bottom(listing, target)
    return list(found.values())


def _for_loop(listing: _Listing, index: int, ends: dict[int, int]) -> Loop:
    """Return the `for` or `async for` whose FOR_ITER or GET_ANEXT is at the index; ``ends`` are last jumps by target."""
    after = index + 1
    header = {listing.lines[index], listing.lines[after]}
    line = min(header - {0}, default=0)
    is_async = listing.ops[index] == GET_ANEXT
    for body in range(after, ends.get(index, len(listing.ops) - 1) + 1):
        if listing.lines[body] in header or (is_async and listing.ops[body - 1] not in STORES):
            continue
        # A body that starts with a `while` is also come to by the `continue` of that.
        if listing.ops[body - 1] in STORES and body not in ends:
            return Loop(line, listing.lines[body], listing.starts[body])
        break
    # An `async for` reaches its body by no jump; its passes are seen as they come back.
    return Loop(line, 0, listing.starts[index if is_async else after])


def _while_loop(listing: _Listing, jump: int, body: int) -> Loop:
    """Return the `while` whose bottom test jumps to its body: the lines before the body's are the test's."""
    body_line = listing.lines[body]
    line = min([line for line in listing.lines[body : jump + 1] if 0 < line < body_line], default=body_line)
    return Loop(line, 0 if line == body_line else body_line, listing.starts[body])


def _while_without_bottom(listing: _Listing, top: int) -> Loop:
    """Return a `while` of which only the top is jumped to.

    Every way through its body ends in `continue`, `break` or `return`, and the top is its test, or
    the body of a `while True`.
    """
    previous = top - 1
    if previous >= 0 and listing.ops[previous] == NOP and listing.lines[previous] != listing.lines[top]:
        return Loop(listing.lines[previous], listing.lines[top], listing.starts[top])
    line = listing.lines[top]
    for index in range(top + 1, len(listing.ops)):
        if listing.lines[index] == line:
            continue
        if listing.ops[index - 1] in TESTS:
            return Loop(line, listing.lines[index], listing.starts[index])
        break
    return Loop(line, 0, listing.starts[top], entered_by_line=True)
