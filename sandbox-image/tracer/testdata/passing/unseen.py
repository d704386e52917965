"""Objects that change without an event: by operators of the library or in C, by callbacks of weak references."""
import operator, pathlib, weakref
def adds(rounds):
    l = []
    class C:
        __add__ = l.append
    c = C()
    for i in range(rounds):
        x = c + i
        y = x
        z = i
    return len(l)
def path(rounds):
    ps = [pathlib.PurePosixPath("a") / str(i) for i in range(rounds)]
    n = 0
    for p in ps:
        s = f"{p}"
        t = s
        n = n
    return n
def path2(rounds):
    ps = [pathlib.PurePosixPath("a") / str(i) for i in range(rounds)]
    n = 0
    for p in ps:
        h = p in (1, 2)
        k = p < p
        n = n
    return n
class Thing: pass
def refs(rounds):
    dead = []
    for i in range(rounds):
        t = Thing()
        r = weakref.ref(t, dead.append)
        t = None
        u = i
        v = u
    return len(dead)
def weak(rounds):
    d = weakref.WeakValueDictionary()
    for i in range(rounds):
        t = Thing()
        d[i] = t
        t = None
        u = i
        v = u
    return len(d)
class H:
    def __init__(self): self.items = []
    p = property(operator.methodcaller("grow"))
    def grow(self): self.items.append(1)
def prop(rounds):
    h = H()
    for i in range(rounds):
        x = h.p
        y = i
        z = y
    return len(h.items)
for f in adds, path, path2, refs, weak, prop:
    print(f(90))
