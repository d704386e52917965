from functools import cache, cmp_to_key, partial, reduce, singledispatch
from itertools import accumulate, groupby, takewhile


@cache
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


@singledispatch
def describe(value):
    return "thing"


@describe.register
def _(value: int):
    return "number"


def by_length(a, b):
    return len(a) - len(b) or (a > b) - (a < b)


words = ["pear", "fig", "apple", "date", "kiwi"]
print(fib(20), fib.cache_info().misses)
print(sorted(words, key=cmp_to_key(by_length))[:2], reduce(lambda a, b: a * b, range(1, 6)))
print([describe(v) for v in (1, "x", True)], partial(pow, exp=2)(7))
print({size: len(list(group)) for size, group in groupby(sorted(words, key=len), len)})
print(list(takewhile(lambda n: n < 8, accumulate(range(9)))), list(map(str.upper, filter(str.islower, "aB"))))
