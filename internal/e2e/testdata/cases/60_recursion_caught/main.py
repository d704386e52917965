def sink(n):
    return sink(n + 1)


def measure():
    try:
        sink(0)
    except RecursionError as error:
        return str(error)[:32]


print(measure())
print(measure() == measure())
total = 0
for n in range(4):
    total += n
print(total)
