"""Small programs of the kinds that people ask Execra about: 50 that are well, 20 that are not."""

from __future__ import annotations

GOOD: dict[str, str] = {
    "arith": """\
a, b = 7, 3
print(a // b, a % b, a ** b, divmod(-a, b))
""",
    "async_cancel": """\
import asyncio
async def work():
    try:
        await asyncio.sleep(9)
    except asyncio.CancelledError:
        print("stopped")
        raise
async def main():
    t = asyncio.create_task(work())
    await asyncio.sleep(0)
    t.cancel()
    await asyncio.gather(t, return_exceptions=True)
asyncio.run(main())
""",
    "async_timeout": """\
import asyncio
async def main():
    try:
        await asyncio.wait_for(asyncio.sleep(5), 0.01)
    except asyncio.TimeoutError:
        print("late")
asyncio.run(main())
""",
    "asyncio": """\
import asyncio
async def f(n):
    await asyncio.sleep(0)
    return n * 2
async def main():
    print(await asyncio.gather(f(1), f(2)))
asyncio.run(main())
""",
    "bisect": """\
import bisect
xs = [1, 3, 5]
bisect.insort(xs, 4)
print(xs)
""",
    "classes": """\
class Dog:
    def __init__(self, name):
        self.name = name
    def speak(self):
        return f"{self.name}: woof"
print(Dog("Rex").speak())
""",
    "closure": """\
def counter():
    n = 0
    def inc():
        nonlocal n
        n += 1
        return n
    return inc
c = counter()
c()
print(c())
""",
    "collections": """\
from collections import Counter, defaultdict, deque
d = defaultdict(list)
d["a"].append(1)
q = deque([1, 2], maxlen=2)
q.append(3)
print(Counter("aab").most_common(1), dict(d), q)
""",
    "comprehension": """\
print([(i, j) for i in range(3) for j in range(3) if i != j], {k: v for k, v in zip("ab", [1, 2])})
""",
    "contextmanager": """\
from contextlib import contextmanager
@contextmanager
def tag(n):
    print("<", n)
    yield
    print(">", n)
with tag("b"):
    print("x")
""",
    "dataclass": """\
from dataclasses import dataclass
@dataclass(order=True)
class P:
    x: int
    y: int = 0
print(sorted([P(2), P(1, 5)]))
""",
    "datetime": """\
from datetime import date, timedelta
print(date(2024, 2, 28) + timedelta(days=2))
""",
    "decimal": """\
from decimal import Decimal
print(Decimal("0.1") + Decimal("0.2"))
""",
    "decorator": """\
import functools
def twice(f):
    @functools.wraps(f)
    def w(*a):
        return f(*a) * 2
    return w
@twice
def add(a, b):
    return a + b
print(add(1, 2))
""",
    "deep_handled": """\
def a():
    b()
def b():
    c()
def c():
    raise KeyError("k")
try:
    a()
except KeyError:
    print("ok")
""",
    "dicts": """\
d = {}
for w in "a b a c".split():
    d[w] = d.get(w, 0) + 1
print(d)
""",
    "enum": """\
import enum
class C(enum.Enum):
    R = 1
    G = 2
print(C.R, C(2), list(C))
""",
    "exit0": """\
import sys
print("bye")
sys.exit(0)
""",
    "exit_text": """\
import sys
print("usage", file=sys.stderr)
sys.exit()
""",
    "fib": """\
def fib(n, seen={}):
    if n < 2:
        return n
    if n not in seen:
        seen[n] = fib(n - 1) + fib(n - 2)
    return seen[n]
print(fib(40))
""",
    "file": """\
with open("a.txt", "w") as f:
    f.write("x\\ny\\n")
with open("a.txt") as f:
    print([line.strip() for line in f])
""",
    "finally": """\
def f():
    try:
        return 1
    finally:
        print("bye")
print(f())
""",
    "finally_hides": """\
def f():
    try:
        1 / 0
    finally:
        return 2
print(f())
""",
    "fizz": """\
for i in range(1, 16):
    print("Fizz" * (i % 3 == 0) + "Buzz" * (i % 5 == 0) or i)
""",
    "fstring": """\
x = 3.14159
print(f"{x:.2f} {x=:.1f} {'é':>4}")
""",
    "generator": """\
def g():
    x = yield 1
    print(x)
    yield 2
i = g()
print(next(i), i.send("s"))
i.close()
""",
    "genexit": """\
def g():
    try:
        yield 1
    finally:
        print("closed")
for x in g():
    break
""",
    "handled": """\
def parse(t):
    try:
        return int(t)
    except ValueError:
        return None
print([parse(t) for t in "1 x 3".split()])
""",
    "hasattr": """\
class A:
    def __getattr__(self, n):
        raise AttributeError(n)
print(hasattr(A(), "x"), getattr(A(), "y", 1), [].__len__())
""",
    "hello": """\
print("hello")
""",
    "inherit": """\
class A:
    def f(self):
        return "A"
class B(A):
    def f(self):
        return super().f() + "B"
print(B().f())
""",
    "iterator": """\
class Count:
    def __init__(self, n):
        self.n = n
    def __iter__(self):
        return self
    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n
print(list(Count(3)))
""",
    "itertools": """\
from itertools import accumulate, groupby
print(list(accumulate([1, 2, 3])), [(k, len(list(g))) for k, g in groupby("aabc")])
""",
    "json": """\
import json
print(json.loads(json.dumps({"a": [1, None, True]})))
""",
    "lambda": """\
print(sorted(["bb", "a", "ccc"], key=lambda s: -len(s)))
""",
    "lists": """\
xs = [3, 1, 2]
xs.sort()
xs.append(9)
print(xs, sum(xs), xs[-1])
""",
    "loop900": """\
n = 0
for i in range(900):
    n += i
print(n)
""",
    "match": """\
def f(p):
    match p:
        case {"op": "add", "args": [a, b]}:
            return a + b
        case [x, *rest]:
            return x, rest
        case _:
            return None
print(f({"op": "add", "args": [1, 2]}), f([1, 2, 3]), f(0))
""",
    "matrix": """\
a = [[1, 2], [3, 4]]
print([[sum(x * y for x, y in zip(r, c)) for c in zip(*a)] for r in a])
""",
    "next_default": """\
print(next(iter([]), "none"))
try:
    next(iter(()))
except StopIteration:
    print("end")
""",
    "pool": """\
from concurrent.futures import ThreadPoolExecutor
def f(n):
    if n == 2:
        raise ValueError(n)
    return n
with ThreadPoolExecutor(2) as p:
    fs = [p.submit(f, n) for n in range(4)]
print([f.exception() and "bad" or f.result() for f in fs])
""",
    "primes": """\
def primes(n):
    sieve = [True] * n
    for i in range(2, n):
        if sieve[i]:
            yield i
            for j in range(i * i, n, i):
                sieve[j] = False
print(list(primes(50)))
""",
    "property": """\
class C:
    def __init__(self):
        self._x = 1
    @property
    def x(self):
        return self._x
    @x.setter
    def x(self, v):
        if v < 0:
            raise ValueError("negative")
        self._x = v
c = C()
c.x = 5
try:
    c.x = -1
except ValueError as e:
    print(e)
print(c.x)
""",
    "regex": """\
import re
print(re.sub(r"(\\w+)@(\\w+)", r"\\2 at \\1", "me@home"))
""",
    "sets": """\
a, b = {1, 2, 3}, {2, 3, 4}
print(a & b, a | b, a - b)
""",
    "strings": """\
s = "banana"
print(s.count("a"), s[::-1], s.title(), "-".join(s))
""",
    "suppress": """\
from contextlib import suppress
with suppress(ZeroDivisionError):
    1 / 0
print("on")
""",
    "threads": """\
import threading
out = []
ts = [threading.Thread(target=out.append, args=(i,)) for i in range(3)]
for t in ts:
    t.start()
for t in ts:
    t.join()
print(sorted(out))
""",
    "unicode": """\
größe = "日本 👍"
print(größe, len(größe), größe.encode()[:3])
""",
    "walrus": """\
import re
if m := re.match(r"(\\d+)", "12ab"):
    print(m[1])
""",
}
"""What each of these does wrong is nothing, whatever exceptions it handles."""

BAD: dict[str, tuple[str, list[tuple[str, int | None]]]] = {
    "attr": ("""\
x = None
x.append(1)
""", [("UnhandledException", 2)]),
    "chain": ("""\
try:
    {}['a']
except KeyError as e:
    raise RuntimeError('no a') from e
""", [("UnhandledException", 4)]),
    "endless": ("""\
n = 0
while n < 5:
    m = n
""", [("UnhandledException", 2), ("PotentialInfiniteLoop", 2)]),
    "group": ("""\
raise ExceptionGroup('g', [ValueError(1), KeyError(2)])
""", [("UnhandledException", 1)]),
    "import": ("""\
import panda
print(1)
""", [("UnhandledException", 1)]),
    "index": ("""\
xs = [1, 2, 3]
for i in range(len(xs) + 1):
    print(xs[i])
""", [("UnhandledException", 3)]),
    "input_ends": ("""\
a = input()
b = input()
print(a + b)
""", [("UnhandledException", 1)]),
    "key": ("""\
d = {"a": 1}
print(d["b"])
""", [("UnhandledException", 2)]),
    "long_then_fail": ("""\
t = 0
for i in range(20000):
    t += i
print([][t])
""", [("UnhandledException", 4), ("PotentialInfiniteLoop", 2)]),
    "name": ("""\
total = 1
print(totl)
""", [("UnhandledException", 2)]),
    "none": ("""\
def find(xs):
    for x in xs:
        if x > 9:
            return x
r = find([1])
print(r + 1)
""", [("UnhandledException", 6)]),
    "recursion": ("""\
def f(n):
    return f(n + 1)
f(0)
""", [("UnhandledException", 2), ("ExcessiveRecursion", None)]),
    "recursion_caught": ("""\
def f(n):
    return f(n + 1)
try:
    f(0)
except RecursionError:
    print('deep')
""", [("ExcessiveRecursion", None)]),
    "syntax_colon": ("""\
for i in range(3)
    print(i)
""", [("UnhandledException", 1)]),
    "syntax_indent": ("""\
def f():
return 1
""", [("UnhandledException", 2)]),
    "syntax_paren": ("""\
print('hello'
""", [("UnhandledException", 1)]),
    "thread": ("""\
import threading
def work():
    raise ValueError('x')
t = threading.Thread(target=work)
t.start()
t.join()
print('on')
""", [("UnhandledException", 3)]),
    "type": ("""\
age = "3"
print("x" + 1)
""", [("UnhandledException", 2)]),
    "value": ("""\
print(int("abc"))
""", [("UnhandledException", 1)]),
    "zero": ("""\
def avg(xs):
    return sum(xs) / len(xs)
def report(xs):
    return avg(xs)
print(report([]))
""", [("UnhandledException", 2)]),
}
"""Each with the errors that Execra is to report: their types and lines."""
