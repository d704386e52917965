import asyncio


def insertion_sort(a):
    for i in range(1, len(a)):
        key = a[i]
        j = i - 1
        while j >= 0 and a[j] > key:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = key
    return a


def collatz(n):
    steps = 0
    for k in range(1, n):
        while k != 1:
            k = 3 * k + 1 if k % 2 else k // 2
            steps += 1
    return steps


def chained(n):
    for i in range(n):
        while 0 < i < 5:
            i -= 1


def continued(n):
    for i in range(n):
        while i and i != 2:
            if i == 4:
                i -= 2
                continue
            i -= 1


def one_line(n):
    for i in range(n):
        while i: i -= 1


def three_deep(n):
    while n:
        n -= 1
        m = n
        while m:
            m -= 1
            k = m
            while k:
                k -= 1


def branches(n):
    for i in range(n):
        if i > 1:
            while i:
                i -= 1
        else:
            while i < 4:
                i += 1


def finds(n):
    p = 2
    while p <= n:
        k = 2
        while k * k <= p:
            if p % k == 0:
                break
            k += 1
        else:
            yield p
        p += 1


async def ticks(n):
    for i in range(n):
        yield i


async def asynchronous():
    async for i in ticks(3): pass
    squares = [i * i async for i in ticks(4) if i]
    async for i in ticks(3):
        while i:
            i -= 1
    return squares


print(insertion_sort([5, 2, 9, 1, 3]), collatz(8), list(finds(12)))
chained(8)
continued(6)
one_line(4)
three_deep(4)
branches(4)
print(asyncio.run(asynchronous()))
for i in range(3):
    while i > 0:
        i -= 1
