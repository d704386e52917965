count = 10


def bump(by):
    if by > 1:
        count = by
    return count + by


print(bump(2))
print(bump(1))
