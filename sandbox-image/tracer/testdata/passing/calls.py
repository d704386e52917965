"""Programs with lines whose calls go to functions of the program, mostly: such lines can be passed."""
import functools

class Point:
    def __init__(self, x, y=0):
        self.x = x
        self.y = y
    def moved(self, by):
        x = self.x + by
        return Point(x, self.y)
    def __len__(self):
        size = self.x
        return size
    def __del__(self):
        Point.gone = self.x

class Wrong(ValueError):
    pass

def double(n):
    twice = n * 2
    return twice

def apart(n, *more, by=1):
    total = n + by
    return total + len(more)

def mixed(n):
    total = 0
    for function in [double] * 8 + [abs, double, Point, double, int, functools.partial(apart, n), double]:
        got = function(n)
        total += 1
        total += got if got.__class__ is int else got.x
    return total

def chain(n):
    point = Point(n)
    for i in range(6):
        point = point.moved(i)
        size = len(point)
        total = apart(size, i)
    return total

def many(n):
    items = []
    for i in range(n):
        one = double(i)
        items.append(one)
        if isinstance(one, int):
            two = apart(one, i, by=2)
            items.append(two)
    return sum(items)

def down(n):
    if n < 2:
        return n
    return down(n - 1) + down(n - 2)

def endless(n):
    deeper = n + 1
    return endless(deeper)

def checked(n):
    if n % 3 == 0:
        raise Wrong(n)
    if n % 3 == 1:
        raise Wrong("one") from None
    return double(n)

def guarded(n):
    total = 0
    for i in range(n):
        try:
            total += checked(i)
        except Wrong as error:
            total += len(error.args)
    return total

def shadowed(n):
    global double
    kept = double
    total = 0
    for i in range(n):
        if i == n // 2:
            double = str
        total += len(str(double(i)))
    double = kept
    return total

print([mixed(n) for n in range(9)], [chain(n) for n in range(9)], many(40), down(11), guarded(30))
print([shadowed(n) for n in range(12)])
try:
    endless(0)
except RecursionError as error:
    print(type(error).__name__)
