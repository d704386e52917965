def show(first, /, second=2, *rest, key, other="o", **extra):
    return first, second, rest, key, other, extra


print(show(1, key="k"))
print(show(*range(5), **{"key": 1, "more": 2}))
print(show(1, key=0, first="not the first"))
head, *middle, tail = "abcde"
print(head, middle, tail, [*middle, *(9,)], {**{"a": 1}, "a": 2})
try:
    show(1, 2, 3)
except TypeError as error:
    print(error)
show(first=1, key=2)
