"""Variables that are changed from elsewhere, through frames, and objects that grow by being read."""
import collections, inspect, sys, threading

def own(n):
    a = b = c = 0
    for i in range(n):
        sys._getframe().f_locals["a"] = i
        b = a
        a = 7
        c = a
    return b, c

def poke(value):
    frame = inspect.currentframe().f_back.f_back
    frame.f_locals["a"] = value

def between(value):
    poke(value)

def caller(n):
    a = b = 0
    for i in range(n):
        between(i)
        b = a
        a = 7
    return a, b

def failing(n):
    a = b = 0
    for i in range(n):
        try:
            raise KeyError(i)
        except KeyError as error:
            error.__traceback__.tb_frame.f_locals["a"] = i
            b = a
            a = 7
    return a, b

def read(container, key):
    value = container[key]
    a = value
    b = a
    return b

def loop(items, other):
    total = 0
    for item in items:
        a = total
        b = a
        total = b
    return total

def unpack(pair, other):
    a, b = pair
    c = a
    d = c
    return d

def grows(turns):
    unknown, loops, pairs = collections.defaultdict(int), [], []
    for i in range(turns):
        read({0: 1}, 0)
        read([1, 2], 0)
        loop([i], [])
        unpack((i, i), [])
    for i in range(3):
        read(unknown, i)
    loop(map(loops.append, range(3)), loops)
    unpack(map(pairs.append, range(2)), pairs)
    return len(unknown), loops, pairs

def plain(n):
    a = n
    b = a
    c = b
    d = c
    return d

def jumping(frame, event, arg):
    if event == "line" and frame.f_lineno == plain.__code__.co_firstlineno + 2:
        frame.f_lineno += 2
    return jumping

def jumped(n):
    plain(n)
    sys.settrace(jumping)
    try:
        plain(n)
    except UnboundLocalError as error:
        print(error)
    finally:
        sys.settrace(None)
    return plain(n)

print(grows(80))
for turn in range(3):
    for f in (own, caller, failing):
        print(f.__name__, f(4))
for turn in range(70):
    plain(turn)
jumped(3)
