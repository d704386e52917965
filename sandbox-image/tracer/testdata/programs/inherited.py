import collections
import decimal
import enum


class Size(enum.Flag):
    SMALL = enum.auto()
    LARGE = enum.auto()
    ANY = SMALL | LARGE


class Point(collections.namedtuple("Point", "x y")):
    def far(self):
        return self.x > 5


point = Point(7, 8)
cache = collections.OrderedDict(a=1, b=2, c=3)
cache.move_to_end("a")
cache.move_to_end("c", last=False)
del cache["b"]
cache[1.5] = [4]
cache[1.5].append(5)
odd = decimal.Decimal("-sNaN12"), decimal.Decimal("NaN")
both = Size.SMALL | Size.LARGE
