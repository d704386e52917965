"""Makes random valid programs, the same one for the same seed.

They end by themselves, print the same each time, and use what a tracer may stumble over: nested
containers changed in place, odd classes, generators, coroutines, threads, exceptions in all places, code made
at run time, deletions, recursion.
"""

from __future__ import annotations

import random
from collections.abc import Callable

PRELUDE = '''\
import gc; gc.disable()  # when cycles go depends on how much was allocated before, also by imports
import asyncio, collections, dataclasses, datetime, decimal, enum, functools, itertools, sys, threading, weakref
steps = 0
def tick(limit=3000):
    global steps
    steps += 1
    if steps > limit:
        raise SystemExit("enough")
def show(*values):
    tick()
    text = " ".join(safe(v) for v in values)
    print(text[:200])
def safe(value):
    try:
        return f"{type(value).__name__}:{value!r}" if type(value) in PLAIN else type(value).__name__
    except Exception as error:
        return type(error).__name__
PLAIN = (int, str, float, bool, type(None), bytes)
class Base:
    kind = "base"
    def __init__(self, *args):
        self.args = args
        self.items = list(args)
    def act(self, other): return self.items and other
class Slots:
    __slots__ = ("a", "b", "__weakref__")
    def __init__(self, *args): self.a = args
class Loud:
    def __init__(self, *args): self.args = args
    def __del__(self): show("gone", len(self.args))
    def __getattribute__(self, name): tick(); return object.__getattribute__(self, name)
    def __eq__(self, other): show("eq"); return self is other
    def __hash__(self): return 7
    def __repr__(self): raise ValueError("repr")
class Meta(type):
    def __eq__(cls, other): show("meta eq"); return NotImplemented
    def __hash__(cls): return 3
    @property
    def __dict__(cls): raise RuntimeError("dict")
class Odd(metaclass=Meta):
    def __init__(self, *args): self.x = args
    @property
    def __class__(self): return int
    @property
    def __dict__(self): raise RuntimeError("instance dict")
class Words(list):
    def __init__(self, *args): list.__init__(self, args); self.extra = 1
class Table(dict):
    def __init__(self, *args): dict.__init__(self, enumerate(args))
    def __missing__(self, key): return key
class Number(int):
    def __new__(cls, *args): return int.__new__(cls, len(args))
Point = collections.namedtuple("Point", "x y", defaults=(0, 0))
class Colour(enum.Enum):
    RED = 1
    BLUE = "b"
@dataclasses.dataclass
class Data:
    a: object = 1
    b: object = dataclasses.field(default_factory=list)
class Hop(Exception): pass
class Managed:
    def __init__(self, *args): self.args = args
    def __enter__(self): return self
    def __exit__(self, kind, value, tb): return bool(self.args) and kind is Hop
KINDS = [Base, Slots, Loud, Odd, Words, Table, lambda *a: Point(*a[:2]), lambda *a: Data(*a[:2]), lambda *a: Number(*a),
         lambda *a: Colour.RED, lambda *a: collections.deque(a, maxlen=4), lambda *a: collections.OrderedDict(enumerate(a)),
         lambda *a: collections.Counter("aab"), lambda *a: decimal.Decimal("-1.50E+40"), lambda *a: datetime.date(2024, 2, 29),
         lambda *a: datetime.timedelta(days=-1, microseconds=5), lambda *a: bytearray(b"xy"), lambda *a: range(len(a), 2**70, 3),
         lambda *a: complex(len(a), -1), lambda *a: frozenset(map(id, a)), lambda *a: functools.partial(show, *a), lambda *a: memoryview(b"ab"),
         lambda *a: itertools.chain(a), lambda *a: weakref.ref(Base), lambda *a: object(), lambda *a: type("New", (Base,), {"y": a})]
def make(n, *args): return KINDS[n % len(KINDS)](*args)
'''

DRIVER = '''\
def count(n):
    for i in range(n):
        yield i
class Steps:
    def __init__(self, n): self.left = n
    def __aiter__(self): return self
    async def __anext__(self):
        self.left -= 1
        if self.left < 0: raise StopAsyncIteration
        await Turn()
        return self.left
class Turn:
    def __await__(self): return self
    def __iter__(self): return self
    def __next__(self):
        self.times = 1 + getattr(self, "times", 0)
        if self.times > 1: raise StopIteration(self.times)
class Waited(Managed):
    async def __aenter__(self): return self
    async def __aexit__(self, *told): return self.__exit__(*told)
def finish(target, way):
    tick()
    if way == 0: show(*target)
    elif way == 1: show(next(target)); show(target.throw(Hop("thrown"))); target.close()
    elif way == 2: show(next(target)); target.throw(KeyError)
    else: show(next(target)); show(next(target)); target.close()
def drive(kind, function):
    global steps
    for n in range(9):
        steps = min(steps, 2500)
        try:
            made = function(n)
            if kind == "async": made = made.__await__()
            if kind == "def": show(made)
            else: finish(made, n % 4)
        except Exception as error: show(type(error).__name__)
'''


class Generator:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        """The same seed makes the same program."""
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.functions = 0
        self.left = 60

    def program(self) -> str:
        """Return the program's text."""
        names = ["a", "b", "c"]
        self.add(0, "a, b, c = 1, [1, 2.5, 'x'], {'k': [1]}")
        for _ in range(self.random.randint(1, 4)):
            self.function(0)
        self.block(0, names, self.random.randint(4, 12), in_function=False)
        Trouble(self.random.randrange(1 << 30), self.lines).functions()
        return PRELUDE + "\n".join(self.lines) + "\n"

    def add(self, depth: int, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * depth + text)

    def pick(self, names: list[str]) -> str:
        """Return one of the names."""
        return self.random.choice(names)

    def value(self, names: list[str], depth: int = 0) -> str:
        """Return an expression that has no effect but by what it makes."""
        choice = self.random.randrange(20 if depth < 3 else 9)

        def deeper() -> str:
            return self.value(names, depth + 1)

        ways: dict[int, Callable[[], str]] = {
            0: lambda: str(self.random.choice([0, 1, -7, 2**31, 2**53, -(2**60), 2**200, 2**2000])),
            1: lambda: self.random.choice(["1.5", "float('nan')", "-float('inf')", "1e-7", "0.0", "-0.0"]),
            2: lambda: repr(self.random.choice(["", "x", "é", "東京", "\\ud800", "long " * 40, "🍵", "\\x00"])).replace("\\\\", "\\"),
            3: lambda: self.random.choice(["None", "True", "False", "...", "NotImplemented"]),
            4: lambda: self.random.choice(["b''", "b'\\xff\\x00' * 30", "len", "show", "int", "sys", "Base.act"]),
            5: lambda: self.pick(names), 6: lambda: self.pick(names), 7: lambda: self.pick(names), 8: lambda: self.pick(names),
            9: lambda: f"[{deeper()}, {deeper()}, {deeper()}]", 10: lambda: f"({deeper()}, {deeper()})", 11: lambda: f"{{1: {deeper()}, 'k': {deeper()}}}",
            12: lambda: "{1, 'x', (2, 3)}", 13: lambda: f"make({self.random.randrange(26)}, {deeper()}, {deeper()})",
            14: lambda: f"[v for v in range({self.random.randrange(12)}) if v % 2]", 15: lambda: f"{{k: {deeper()} for k in 'abc'}}",
            16: lambda: f"(v for v in [{deeper()}, {deeper()}])", 17: lambda: f"(lambda *p, q={deeper()}: (p, q))({deeper()})",
            18: lambda: f"[*range(30), {deeper()}]", 19: lambda: f"[[i, {deeper()}] for i in range(3)]",
        }
        return ways[choice]()

    def function(self, depth: int) -> None:
        """Add a function: plain, a generator, or a coroutine."""
        self.functions += 1
        kind = self.random.choice(["def", "def", "def", "gen", "async"])
        name = f"f{self.functions}"
        self.add(depth, f"{'async ' if kind == 'async' else ''}def {name}(a, b=None, *c):")
        self.add(depth + 1, "tick()")
        self.block(depth + 1, ["a", "b", "c"], self.random.randint(2, 6), in_function=True)
        if kind == "gen":
            self.add(depth + 1, "d = yield a")
            self.add(depth + 1, "yield from [d, b]")
        elif kind == "async":
            self.add(depth + 1, "await asyncio.sleep(0)")
        self.add(depth + 1, f"return {self.value(['a', 'b', 'c'])}")
        self.add(depth, f"calls.append(('{kind}', {name}))" if depth == 0 and name != "f1" else f"calls = [('{kind}', {name})]" if depth == 0 else "pass")

    def block(self, depth: int, names: list[str], count: int, in_function: bool) -> None:
        """Add statements."""
        for _ in range(count):
            self.left -= 1
            self.statement(depth, names, in_function)

    def statement(self, depth: int, names: list[str], in_function: bool) -> None:
        """Add one statement, with others in it as long as there is room."""
        n, v = self.pick(names), self.value(names)

        def inner(most: int = 2) -> None:
            self.block(depth + 1, names, self.random.randint(1, most), in_function)

        simple = [f"{n} = {v}", f"{n} = {v}", f"show({n}, {v})", f"x{self.random.randrange(4)} = {v}", f"{n} = [{n}, {v}]"]
        attempts = [
            f"{n}.append({v})", f"{n}['k'] = {v}", f"{n}[0] = {v}", f"{n}.z = {v}", f"{n} += {n}", f"del {n}[0]", f"{n}.pop()", f"del x{self.random.randrange(4)}",
            f"{n}, x1 = {v}", f"exec('{n}2 = [1]; show({n}2)')", f"x2 = eval('lambda q: [q, q]')({v})", f"raise {self.random.choice(['Hop', 'KeyError', 'ValueError'])}({v})",
            f"next({n})", f"x3 = dict({n})", f"x1 = sorted({n})", f"{n}.self = {n}", f"{n}.append({n})", f"assert {v}, {n}", "1 / 0", f"raise ExceptionGroup('g', [ValueError(1), Hop({v})])",
            f"x0 = make({self.random.randrange(26)}, {n}).items", f"{n} = {n} + {n}", f"list({n})", f"{n}.update(k={v})",
        ]
        choice = self.random.randrange(16) if self.left > 0 and depth < 4 else self.random.randrange(4)
        if choice < 2:
            self.add(depth, self.random.choice(simple))
        elif choice < 6:
            self.add(depth, "try:")
            self.add(depth + 1, self.random.choice(attempts))
            self.add(depth, f"except {self.random.choice(['Exception', 'Exception', '(KeyError, TypeError, AttributeError)'])} as error:" if self.random.random() < 0.9 else "except* Exception as error:")
            self.add(depth + 1, f"show(type(error).__name__){'; ' + n + ' = error' if self.random.random() < 0.3 else ''}")
            if self.random.random() < 0.2:
                self.add(depth, "finally:")
                inner(1)
        elif choice == 6:
            self.add(depth, f"for {n if self.random.random() < 0.3 else 'x' + str(self.random.randrange(4))} in range({self.random.randrange(1, 6)}):")
            inner(3)
        elif choice == 7:
            self.add(depth, f"x0 = {self.random.randrange(5)}")
            self.add(depth, "while type(x0) is int and 0 < x0 < 9:")
            self.add(depth + 1, "x0 -= 1; tick()")
            inner()
        elif choice == 8:
            self.add(depth, f"if {n}.__class__ is int:" if self.random.random() < 0.5 else f"if {v} is not None:")
            inner()
            self.add(depth, "else:")
            inner()
        elif choice == 9:
            self.add(depth, f"with Managed({self.random.choice(['', '1'])}) as {n}:")
            inner()
        elif choice == 10:
            self.add(depth, f"match {n}:")
            self.add(depth + 1, f"case [x1, *x2]: show(x1, x2)\n{'    ' * (depth + 1)}case {{'k': x3}}: show(x3)\n{'    ' * (depth + 1)}case Base(kind=x0): show(x0)\n{'    ' * (depth + 1)}case _: show('other')")
        elif choice == 11:
            self.add(depth, f"class C{self.random.randrange(9)}({self.random.choice(['Base', 'Loud', 'Words', 'object', 'Exception'])}):")
            self.add(depth + 1, f"shared = {v}")
            self.add(depth + 1, "def act(self, other=1): tick(); self.last = other; return [self.shared, other]")
        else:
            self.call(depth, names, in_function)

    def call(self, depth: int, names: list[str], in_function: bool) -> None:
        """Add a call of one of the functions in one of several ways."""
        v, w = self.value(names), self.value(names)
        self.add(depth, "try:")
        self.add(depth + 1, f"kind, target = calls[{self.random.randrange(9)} % len(calls)]")
        self.add(depth + 1, f"made = target({v}, {w}) if steps < 300 else None")
        way = self.random.randrange(5)
        if way == 0:
            self.add(depth + 1, "if kind == 'def' and steps < 200: t = threading.Thread(target=target, args=(made,)); t.start(); t.join()")
        self.add(depth + 1, "if kind == 'gen' and made is not None:")
        self.add(depth + 2, self.random.choice([
            "show(list(itertools.islice(made, 5)))", "show(next(made)); made.close()", "next(made); made.throw(Hop('thrown'))", "show(next(made)); show(made.send(2))", "x0 = made; del made",
        ]))
        self.add(depth + 1, "elif kind == 'async' and made is not None:")
        self.add(depth + 2, self.random.choice([
            "show(asyncio.run(made))" if not in_function else "made.close()", "made.close()", "show(made.send(None))", "made.throw(Hop)",
        ]))
        self.add(depth, "except Exception as error: show(type(error).__name__)")


class Trouble:
    """Writes functions that exceptions go through in many ways, and calls of them."""

    def __init__(self, seed: int, lines: list[str]) -> None:
        """The functions are added to the lines."""
        self.random = random.Random(seed)
        self.lines = lines
        self.left = 0
        self.made: list[str] = []

    def add(self, depth: int, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * depth + text)

    def functions(self) -> None:
        """Add the functions, and drive each a few times."""
        self.lines.extend(DRIVER.splitlines())
        for number in range(self.random.randint(2, 4)):
            kind = self.random.choice(["def", "def", "gen", "async"])
            name, self.left = f"t{number}", 22
            self.add(0, f"{'async ' if kind == 'async' else ''}def {name}(n):")
            self.add(1, "tick(); a, b = n, 1")
            self.block(1, kind, frozenset())
            self.add(1, "yield a" if kind == "gen" else "a += 1")
            self.add(1, "return (a, b)" if kind != "gen" else "return")
            self.add(0, f"drive('{kind}', {name})")
            if kind == "def":
                self.made.append(name)

    def block(self, depth: int, kind: str, within: frozenset[str]) -> None:
        """Add statements; within says what they are in: a loop, a handler, a handler of groups."""
        for _ in range(self.random.randint(1, 4)):
            self.statement(depth, kind, within)

    def statement(self, depth: int, kind: str, within: frozenset[str]) -> None:
        """Add a statement."""
        self.left -= 1
        choice = self.random.randrange(20) if self.left > 0 and depth < 6 else self.random.randrange(8)
        if choice < 4:
            self.add(depth, self.random.choice(["a = a + n", "b = a * 2", "b ^= n", "a, b = b, a", "b = [a, b]", "a = -n", "b = str(b)", "a = {}; b = 3"]))
        elif choice < 8:
            self.add(depth, self.random.choice(self.leaves(kind, within)))
        elif choice < 14:
            self.attempt(depth, kind, within)
        elif choice < 16:
            self.add(depth, self.random.choice([f"if n % {self.random.randint(2, 4)}:", "if a:", "if n % 2 == 0:"]))
            self.block(depth + 1, kind, within)
            if self.random.random() < 0.5:
                self.add(depth, "else:")
                self.block(depth + 1, kind, within)
        elif choice < 18:
            loop = self.random.choice(["for i in range(3):", "for a in count(n % 4):", "while tick() or n % 5:"])
            self.add(depth, loop if kind != "async" or self.random.random() < 0.5 else "async for a in Steps(n % 4):")
            if loop.startswith("while"):
                self.add(depth + 1, "n -= 1")
            self.block(depth + 1, kind, within | {"loop"})
            if self.random.random() < 0.2:
                self.add(depth, "else:")
                self.block(depth + 1, kind, within)
        else:
            word = "async " if kind == "async" and self.random.random() < 0.6 else ""
            self.add(depth, f"{word}with {'Waited' if word else 'Managed'}({self.random.choice(['', 'n', '1'])}) as c:")
            self.block(depth + 1, kind, within)

    def leaves(self, kind: str, within: frozenset[str]) -> list[str]:
        """Return statements that can raise, or leave a block."""
        rest = self.random.randrange(4)
        ways = [
            f"if n % 4 == {rest}: raise Hop(a)", f"if n % 3 == {rest}: raise KeyError", "b = 6 // (n % 3)", "b = {1: 2}[n % 4]", "a = [1, 2][n]",
            f"if n == {rest}: next(iter(()))", f"if n % 2: raise ExceptionGroup('g', [Hop(a), KeyError(n)])", "raise ValueError(n) from None",
            f"b = {self.random.choice(self.made)}(n - 1) if n > 0 else 0" if self.made else "a = n", f"if n == {rest}: a.missing", "n.append(a)",
        ]
        if "group" not in within:
            ways += [f"if n == {rest}: return{' a' if kind != 'gen' else ''}"] * 2
        ways += [f"if n % 3 == {rest}: {self.random.choice(['break', 'continue'])}"] * 4 if "loop" in within else []
        ways += ["raise", f"if n % 2 == {rest % 2}: raise"] if "handler" in within else []
        ways += ["a = yield b", "yield", "yield from count(n % 3)"] * 2 if kind == "gen" else []
        ways += ["await Turn()", "b = await Turn()"] * 2 if kind == "async" else []
        return ways

    def attempt(self, depth: int, kind: str, within: frozenset[str]) -> None:
        """Add a try statement."""
        self.add(depth, "try:")
        self.block(depth + 1, kind, within)
        clauses, groups = self.random.randint(0, 3), self.random.random() < 0.15
        for _ in range(clauses):
            what = self.random.choice(["Hop", "KeyError", "(KeyError, ZeroDivisionError)", "ValueError", "ArithmeticError", "Exception", "StopIteration"])
            self.add(depth, f"except{'*' if groups else ''} {what}{self.random.choice([' as e', ''])}:")
            self.block(depth + 1, kind, (within - {"loop"} | {"handler", "group"}) if groups else within | {"handler"})
        if clauses and self.random.random() < 0.3:
            self.add(depth, "else:")
            self.block(depth + 1, kind, within)
        if not clauses or self.random.random() < 0.4:
            self.add(depth, "finally:")
            self.block(depth + 1, kind, within)


def program(seed: int) -> str:
    """Return the program of a seed."""
    return Generator(seed).program()
