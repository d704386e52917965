import asyncio
from contextlib import contextmanager


@contextmanager
def section(name):
    try:
        yield name
    finally:
        done.append(name)


def numbers():
    got = yield 1
    yield got


def chained():
    result = yield from numbers()
    return result


async def fetch(n):
    await asyncio.sleep(0)
    return n


async def ticks():
    yield 1
    yield 2


async def main():
    total = sum(await asyncio.gather(fetch(1), fetch(2)))
    async for tick in ticks():
        total += tick
    return total


done = []
with section("outer"):
    pass
try:
    with section("inner"):
        raise KeyError("k")
except KeyError:
    pass
generator = chained()
next(generator)
generator.send(5)
try:
    generator.throw(ValueError("thrown"))
except ValueError:
    pass
try:
    next(generator)
except StopIteration:
    pass
print(asyncio.run(main()), done)
