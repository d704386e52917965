def counter(step):
    count = 0

    def up():
        nonlocal count
        count += step
        return count

    def reset():
        nonlocal count
        count, old = 0, count
        return old

    return up, reset


up, reset = counter(5)
other, _ = counter(1)
up()
print(up(), other(), reset(), up())
late = [lambda: n for n in range(3)]
early = [lambda n=n: n for n in range(3)]
print([f() for f in late], [f() for f in early])
limit = 10


def outer():
    def inner():
        return limit
    return inner()


print(outer())
