import collections
import datetime
import decimal
import enum
import math
from dataclasses import dataclass

Point = collections.namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1


class Size(enum.IntEnum):
    BIG = 9


@dataclass
class Reading:
    sensor: str
    value: int


class Slotted:
    __slots__ = ("first", "second")

    def __init__(self):
        self.first = 1


class Words(list):
    def __init__(self, *words):
        super().__init__(words)
        self.language = "en"


class Level(int):
    pass


def scalars():
    nothing, yes, no = None, True, False
    small, negative, safe = 7, -7, 2**53 - 1
    large, huge = 2**70, -(2**1000)
    half, nan, infinity, whole = 0.5, math.nan, -math.inf, 3.0
    text, quoted, wide = "tea", 'a "b" \\ \n \x00', "чай 🍵 \ud83d"
    long_text, data, long_data = "ab" * 100, b"\x00\xff", bytes(50)
    return small


def containers():
    items, pair, unique, frozen = [1, "two"], (1, 2.5), {7}, frozenset({8})
    table = {"a": 1, 2: "b", (3, 4): None}
    many, nested = list(range(20)), [[1, [2, [3]]], {"k": [4]}]
    ring = [1]
    ring.append(ring)
    queue, counts = collections.deque([1, 2], maxlen=5), collections.Counter("aab")
    ordered, default = collections.OrderedDict(z=1), collections.defaultdict(list, k=[1])
    buffer, span, imaginary = bytearray(b"xy"), range(3), 2j
    return items


def objects():
    point, colour, size, reading = Point(3, 4), Colour.RED, Size.BIG, Reading("door", 7)
    slotted, words, level = Slotted(), Words("tea", "jam"), Level(5)
    price = decimal.Decimal("1.50")
    when = datetime.datetime(2024, 2, 29, 12, 30, 5, 17, tzinfo=datetime.timezone.utc)
    day, clock, span = when.date(), when.time(), datetime.timedelta(hours=30)
    error, group = ValueError("bad", 7), ExceptionGroup("several", [KeyError("k")])
    function, builtin, method, kind, module = scalars, len, reading.__init__, Reading, math
    running = (n for n in words)
    return reading


scalars()
containers()
objects()
