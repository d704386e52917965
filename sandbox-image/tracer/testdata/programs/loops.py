def plain(n):
    for i in range(n):
        i
    for i in range(n):
        for j in range(2):
            j


def bodies(n):
    for i in range(n):
        max(i,
            2)
    for i in range(n):
        with open("/dev/null"):
            i
    for i in range(n):
        [j
         for j in range(2)]
    for i in range(n):
        try:
            continue
        finally:
            i


def whiles(n):
    a = n
    while a:
        a -= 1
    a = n
    while a and a != -1:
        a -= 1
        if a == 1:
            continue
        a
    while True:
        while a < 2:
            a += 1
        break
    a = n
    while (a and
           a > 0):
        a -= 1
    while a < 3:
        a += 1
        if a < 2:
            continue
        break


def one_line(n):
    for i in range(n): i
    while n: n -= 1
    while True: n += 1; break
    for i in []: i


async def asynchronous(n):
    async for i in ticks(n):
        i


async def ticks(n):
    for i in range(n):
        yield i


def with_else(n):
    for i in range(n):
        if i == 1:
            break
    else:
        n = 0
    comprehension = [i * j for i in range(n) for j in range(n)]
    for (i,
         j) in [(1, 2), (3, 4)]:
        i
    return comprehension, sum(i for i in range(n))


plain(3)
bodies(3)
whiles(3)
one_line(3)
with_else(3)
try:
    asynchronous(3).send(None)
except StopIteration:
    pass
