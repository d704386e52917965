class Countdown:
    def __init__(self, start):
        self.left = start

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left


def pairs(source):
    steps = iter(source)
    for first in steps:
        yield first, next(steps, None)


print(list(Countdown(3)), list(pairs(Countdown(5))))
for n in Countdown(2):
    print(n)
first, *rest = Countdown(4)
print(first, rest, 1 in Countdown(3))
print(next(iter([])))
