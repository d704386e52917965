from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass(slots=True)
class Point:
    x: int
    y: int


@dataclass
class Line:
    start: Point
    tags: list = field(default_factory=list)


Pair = namedtuple("Pair", "left right")


def collect():
    queue = deque([1, 2, 3], maxlen=2)
    letters = Counter("banana")
    groups = defaultdict(list)
    groups["even"].append(2)
    order = OrderedDict(b=1, a=2)
    line = Line(Point(1, 2))
    line.tags.append("thin")
    pair = Pair("l", "r")
    colour = Colour.BLUE
    exact = Decimal("0.10") + Fraction(1, 4).numerator
    place = Path("a") / "b.txt"
    view = memoryview(b"abc")
    span = slice(1, 5, 2)
    steps = range(0, 10, 3)
    return [queue[0], letters["a"], dict(groups), list(order), line.tags, pair.right, colour.name, str(exact), place.name,
            view[1], span.stop, len(steps)]


print(collect())
