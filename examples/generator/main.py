# Wants to use the even numbers twice, but a generator can be walked only
# once: after sum() it is empty, and max() has nothing to choose from.
def evens(limit):
    n = 0
    while n < limit:
        yield n
        n += 2


numbers = evens(6)
print("sum", sum(numbers))
print("largest", max(numbers))
