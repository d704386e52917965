def step(n):
    return n + 1


def count(limit):
    n = 0
    while n < limit:
        n = step(n)
    return n


print(count(500))
late = count(3)
print(late)
[][late]
