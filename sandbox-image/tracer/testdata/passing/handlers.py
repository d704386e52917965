"""Programs whose lines are passed on the way of exceptions: in handlers, through them, and out of functions."""
import asyncio, contextlib

class Wrong(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.code = code

class Kept:
    def __init__(self, keeps):
        self.keeps = keeps
    def __enter__(self):
        entered = self.keeps
        return entered
    def __exit__(self, kind, error, traceback):
        left = kind is not None
        return left and self.keeps
    async def __aenter__(self):
        return self.__enter__()
    async def __aexit__(self, *told):
        await asyncio.sleep(0)
        return self.__exit__(*told)

class Numbers:
    def __init__(self, left):
        self.left = left
    def __aiter__(self):
        return self
    async def __anext__(self):
        self.left -= 1
        if self.left == 0:
            raise StopAsyncIteration
        if self.left % 4 == 0:
            raise Wrong(self.left)
        return self.left

class Answer:
    def __init__(self, value):
        self.value = value
    def __await__(self):
        return self
    def __iter__(self):
        return self
    def __next__(self):
        raise StopIteration(self.value)

class Early(StopIteration):
    pass

class Counting:
    def __init__(self, left):
        self.left = left
    def __iter__(self):
        return self
    def __next__(self):
        self.left -= 1
        if self.left < 0:
            raise Early(self.left)
        return self.left

def fail(n):
    code = n % 4
    if code == 0:
        raise Wrong(n)
    if code == 1:
        return {}[n]
    if code == 2:
        return 1 // (n - n)
    return n

def chosen(n):
    good = bad = 0
    for i in range(n):
        try:
            fail(i)
            good += 1
        except Wrong as error:
            bad += error.code & 1
        except (KeyError, ValueError):
            bad += 2
        except ArithmeticError as error:
            text = str(error)
            bad += len(text)
        finally:
            bad += 0
    return good, bad

def wrapped(n):
    try:
        return fail(n)
    except KeyError as error:
        raise ValueError("no key") from error

def through(n):
    total = 0
    for i in range(n):
        try:
            wrapped(i)
        except Exception as error:
            total += len(error.args)
    return total

def nested(n):
    total = n
    try:
        try:
            total += 1
            fail(n)
        except KeyError:
            total += 2
            raise
        except Wrong as error:
            total = error.code
            fail(total + 2)
        total += 3
    except LookupError:
        total += 4
    except ArithmeticError:
        total += 5
        total //= 2
    return total

def finals(n):
    total = n
    try:
        total += 1
        try:
            fail(n)
            total += 2
        finally:
            total += 3
            total -= 1
    finally:
        total += 4
        if n % 3 == 0:
            return total
    return -total

def loops(n):
    total = 0
    for i in range(n):
        try:
            total += i
            fail(i)
        except (Wrong, ArithmeticError):
            total += 1
            continue
        except KeyError:
            total += 2
            if i > 20:
                break
        finally:
            total += 3
            if i == 30:
                break
    else:
        total = -total
    return total

def groups(n):
    total = 0
    try:
        total = 1
        raise ExceptionGroup("some", [Wrong(n), KeyError(n)] if n % 2 else [Wrong(n)])
    except* KeyError as group:
        total += len(group.exceptions)
    except* Wrong:
        total += 10
        if n % 3 == 0:
            raise
    return total

def managed(n):
    total = n
    with Kept(n % 2) as keeps:
        total += 1
        fail(n)
        total += 2
    with contextlib.suppress(KeyError):
        fail(n)
        total += 3
    return total, keeps

def inside(n):
    total = n
    try:
        with Kept(False):
            fail(n)
            total += 1
    except KeyError:
        total += 2
    except Wrong as error:
        total = error.code
        with Kept(True):
            fail(total)
    return total

def again(n):
    total = n
    try:
        fail(n)
    except Exception:
        total += 1
        if n % 2:
            raise
        total += 2
        fail(n + 1)
    return total

def stepping(n):
    total = 0
    while True:
        try:
            total += 1
            got = yield total
            total += got or 0
            fail(total)
        except Wrong as error:
            total = error.code + 1
        except KeyError:
            total += 3
        finally:
            n -= 1
        if n < 0:
            return total

def delegating(n):
    total = n
    try:
        got = yield from stepping(n)
        total += got
    except ZeroDivisionError:
        total = -1
    yield total

def early(n):
    total = 0
    for i in Counting(n):
        total += i
        total -= 1
    a, b = total, n
    total = a + b
    return total

async def waiting(n):
    total = n
    got = await Answer(n)
    total += got
    total -= 1
    async with Kept(n % 2):
        total += 1
        fail(n)
    try:
        async for i in Numbers(n):
            total += i
            total -= 1
    except Wrong as error:
        total += error.code
    try:
        total += await Answer(n)
        await asyncio.sleep(0)
        fail(n)
    except Exception:
        total += 1
    return total

def attempt(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return type(error).__name__

def throwing(make, n):
    steps = make(n)
    told = [next(steps)]
    told.append(steps.send(n))
    told.append(steps.throw(Wrong(7) if n % 2 else KeyError(7)))
    if n % 3 == 0:
        steps.close()
    else:
        told.extend(steps)
    return told

def short(n):
    try: a = fail(n)
    except KeyError: a = 1
    finally: b = 2
    return a + b

print(chosen(90), through(90), loops(30), loops(90))
for function in (wrapped, nested, finals, groups, managed, inside, again, early, short):
    print(function.__name__, [attempt(function, n) for n in range(12)])
for make in (stepping, delegating):
    print(make.__name__, [attempt(throwing, make, n) for n in range(12)])
print([attempt(asyncio.run, waiting(n)) for n in range(1, 12)])
