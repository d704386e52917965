"""Programs with lines that can be passed, and what can happen in the midst of them."""
import copy, sys

class Vector:
    made = 0
    def __init__(self, x):
        self.x = x
    def __add__(self, other):
        Vector.made += 1
        return Vector(self.x + other)
    def __iadd__(self, other):
        self.x += other
        return self
    def __bool__(self):
        total = self.x
        return total > 3
    @property
    def double(self):
        x = self.x
        y = x * 2
        return y
    def __del__(self):
        gone = self.x
        Vector.last = gone

class Lazy:
    def __getattr__(self, name):
        value = len(name)
        self.__dict__[name] = value
        return value

def plain(n):
    a = n
    b = a + 1
    c = b * 2
    d = c - a
    return d

def middle(n):
    a = n
    b = a + 1
    c = 10 // (n - 2)
    d = c + b
    return d

def caught(n):
    total = 0
    try:
        a = n
        b = 10 // (n - 2)
        c = b + a
        total = c
    except ZeroDivisionError as error:
        a = -1
        total = str(error)
    else:
        b = 0
        total += 1
    finally:
        d = 5
        e = d
    return total

def operators(v, n):
    a = v + n
    b = a + 1
    if b:
        c = b.double
        d = c + 1
    else:
        d = 0
    a = None
    b = 7
    v += 1
    e = v.x
    return d + e

def attributes(n):
    z = Lazy()
    a = z.one
    b = z.two
    c = z.one
    z.one = c + n
    d = z.one
    return d

def deletes(n):
    v = Vector(n)
    w = v
    a = 1
    v = None
    b = 2
    w = 3
    c = 4
    return a + b + c

def in_place(n):
    items = [n]
    other = items
    items += [1]
    a = 1
    b = a
    other += (2, 3)
    c = b
    n += 1
    d = c
    items = n
    return other

def walrus(n):
    if (m := n * 2) > 4 and (k := m - 1):
        p = k
        q = p + m
        return q
    r = m
    return -r

def matches(v):
    match v:
        case 0:
            a = 1
            b = a
        case [x, y]:
            a = x
            b = y
        case {"k": z}:
            a = z
            b = 2
        case str() as s if len(s) > 2:
            a = s
            b = 3
        case _:
            a = b = None
    return a, b

def closures(n):
    count = 0
    step = n
    def more():
        nonlocal count
        a = step
        count += a
        b = count
        return b
    a = more()
    b = a + 1
    count = b
    c = count
    d = more()
    e = count
    return d, e, c

def comprehensions(n):
    x = 5
    a = [x for x in range(n) if x % 2]
    b = {
        k:
        v
        for k, v in zip(a, a)
    }
    c = x
    d = {i
         for i in a}
    return a, b, c, d

def loops(n):
    total = 0
    for i in range(n):
        for j in range(3):
            x = i * j
            y = x ^ (i + 3)
            if y & 1:
                total += y % 7
            else:
                total -= x % 5
        if total > 9:
            continue
        z = total
        if z < -9:
            break
    else:
        z = None
    while n > 0:
        n -= 1
        if n == 2:
            continue
        a = n
        b = a
    while n < 5: n += 1
    for q in range(3): r = q; s = r
    return total, z

def objects(n):
    held = None
    for i in range(n):
        a = i
        b = a
        if i == n - 2:
            held = [i]
        c = b
    return held

def late_object(values):
    out = None
    for v in values:
        a = v
        b = a
        c = b
        out = c
    return out

def mutated(n):
    buf = [0]
    for i in range(n):
        buf.append(i)
        a = i
        buf = a if i > n - 2 else buf
        b = a
    return buf

def generator(n):
    a = 0
    while a < n:
        b = a * 2
        c = b
        d = yield c
        e = d
        a += 1
        f = e
    return f

def consumer(n):
    total = 0
    g = generator(n)
    for x in g:
        a = x
        total += a
        b = total
    h = generator(2)
    a = next(h)
    try:
        h.throw(KeyError)
    except KeyError:
        b = a
    return total, b

def recursion(n):
    a = n
    b = a - 1
    if b < 0:
        return 0
    c = recursion(b)
    d = c + 1
    e = d
    return e

def frames(n):
    a = n
    sys._getframe().f_locals["a"] = n + 100
    b = a
    c = b
    return c

def swapped(n):
    a, b = n, 1
    a, b = b, a
    c = a
    del b
    d = c
    b = d
    return b

def in_handlers(n):
    for i in range(n):
        try:
            try:
                a = i
                if i % 2:
                    raise ValueError(i)
                b = a
            finally:
                c = i
                d = c
        except ValueError:
            e = 1
            f = e
        g = 2
    return g

def with_block(n):
    class Manager:
        def __enter__(self):
            a = n
            return a
        def __exit__(self, *rest):
            b = n
            return True
    with Manager() as m:
        a = m
        b = a
        c = 1 // n
        d = c
    return b

def many(text):
    count = 0
    for c in text:
        if c == "a":
            count += 1
        elif c == "b":
            count += 2
        elif c in "cd":
            x = count
            count = x * 2
        else:
            continue
        last = c
    return count

def one(n): return n + 1

def traced(n):
    seen = []
    def trace(frame, event, arg):
        seen.append(event)
        return trace
    sys.settrace(trace)
    try:
        a = plain(n)
        b = loops(3)
    finally:
        sys.settrace(None)
    return len(seen), a, b

def profiled(n):
    def profile(frame, event, arg):
        pass
    sys.setprofile(profile)
    a = plain(n)
    sys.setprofile(None)
    b = loops(2)
    return a, b

def monitored(n):
    tool, hits = 3, 0
    def line(code, number):
        nonlocal hits
        hits += 1
        return sys.monitoring.DISABLE
    sys.monitoring.use_tool_id(tool, "other")
    sys.monitoring.register_callback(tool, sys.monitoring.events.LINE, line)
    sys.monitoring.set_local_events(tool, plain.__code__, sys.monitoring.events.LINE)
    a = plain(n)
    sys.monitoring.restart_events()
    b = plain(n)
    sys.monitoring.set_local_events(tool, plain.__code__, 0)
    sys.monitoring.free_tool_id(tool)
    return a, b, hits

def run(f, *arguments):
    try:
        print(f.__name__, f(*copy.deepcopy(arguments)))
    except Exception as error:
        print(f.__name__, type(error).__name__)

for turn in range(6):
    for n in (0, 3, 2, 5, 1):
        for f in (plain, middle, caught, attributes, deletes, in_place, walrus, closures, comprehensions, loops, objects, mutated,
                  generator, consumer, recursion, swapped, in_handlers, with_block, one):
            run(f, n)
        run(operators, Vector(n), n)
    for v in (0, [1, 2], {"k": 3}, "text", "t", None):
        run(matches, v)
    run(late_object, [1, 2, 3])
    run(many, "abcdex")
    run(late_object, [1, [2], 3, (4,)])
    run(late_object, iter([1, 2]))
    run(late_object, (x for x in [1, [2]]))
    again = {}
    exec("def compiled(n):\n    a = n\n    b = a\n    if b > 1:\n        c = b\n    else:\n        c = 0\n    return c\n", again)
    run(again["compiled"], turn)
    if turn > 2:
        run(frames, 3)
        run(profiled, 3)
        run(monitored, 3)
for turn in range(3):
    run(traced, turn)
