"""Exceptions thrown into generators and coroutines that delegate: each function says how deep it is."""

import asyncio
import sys
import types


def deep():
    frame, count = sys._getframe(1), 0
    while frame is not None:
        count += frame.f_code.co_filename.endswith("main.py")
        frame = frame.f_back
    return count


def leaf(kind):
    here = deep()
    for turn in range(4):
        try:
            here = deep()
            yield turn
            here = deep()
        except KeyError:
            here = deep()
            if kind == "raises":
                raise ValueError(turn) from None
            if kind == "returns":
                return turn
            here = deep()
        except GeneratorExit:
            here = deep()
            raise
    here = deep()
    return here


def middle(kind):
    here = deep()
    try:
        got = yield from leaf(kind)
        here = deep()
        yield got
    except ValueError:
        here = deep()
        yield from leaf("goes on")
    here = deep()


def outer(kind):
    here = deep()
    yield from middle(kind)
    here = deep()
    return here


def steps(kind, throws):
    here = deep()
    made = outer(kind)
    told = [next(made)]
    for throw in throws:
        here = deep()
        try:
            told.append(made.throw(KeyError(here)) if throw else next(made))
        except (StopIteration, KeyError) as error:
            told.append(type(error).__name__)
            break
        here = deep()
    made.close()
    here = deep()
    return here, told


@types.coroutine
def bare():
    here = deep()
    try:
        yield "wait"
    except KeyError:
        here = deep()
        yield "again"
    here = deep()
    return here


async def awaits(levels):
    here = deep()
    got = await (awaits(levels - 1) if levels else bare())
    here = deep()
    return got + here


async def counts(n):
    here = deep()
    for i in range(n):
        try:
            here = deep()
            yield i
            here = deep()
        except KeyError:
            here = deep()
            await awaits(1)
            here = deep()


def coroutine():
    made = awaits(3)
    told = [made.send(None)]
    told.append(made.throw(KeyError()))
    here = deep()
    try:
        made.send(None)
    except StopIteration as stop:
        told.append(stop.value)
    here = deep()
    return here, told


def asynchronous():
    made = counts(3)
    told = []
    for wait in made.__anext__(), made.athrow(KeyError()), made.aclose():
        here = deep()
        try:
            told.append(wait.send(None))
            here = deep()
            told.append(wait.throw(KeyError()))
            here = deep()
            wait.send(None)
        except (StopIteration, StopAsyncIteration) as stop:
            told.append(str(stop))
        except RuntimeError as error:
            told.append(type(error).__name__)
        here = deep()
    return here, told


async def naps():
    here = deep()
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        here = deep()
        raise
    finally:
        here = deep()


async def cancels():
    here = deep()
    task = asyncio.create_task(naps())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    here = deep()
    return here


for turn in range(8):
    for kind in "goes on", "raises", "returns":
        print(kind, steps(kind, [False, True, True, False, True]), steps(kind, [True] * 6), steps(kind, [turn & 1, turn & 2, turn & 4]))
    print(coroutine(), asynchronous())
here = deep()
print(asyncio.run(cancels()))
here = deep()
