def area(width, height):
    product = width * height
    return product


def report(sizes):
    for width, height in sizes:
        yield area(width, height)


print(list(report([(1, 2), (3, 4)])))
area(1, "x" * 3)[5]
