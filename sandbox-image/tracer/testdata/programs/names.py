import enum


class Colour(enum.Enum):
    RED = 1
    DARK = RED + 1


class Sizes:
    known = [
        (size,
         size + 1)
        for size in (1, 2)
    ]


n = "outer"
doubled = [
    n * 2
    for n in range(2)
    if n
]
try:
    parsed = [int(text) for text in ("1", "x")]
except ValueError:
    bad = n

many = [
    [k]
    for k in range(70)
]


class First:
    pass


class Second:
    pass


changing = First()
changing.__class__ = Second
changing.a = 1
