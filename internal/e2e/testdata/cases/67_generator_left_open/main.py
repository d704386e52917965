def pages(n):
    try:
        for page in range(n):
            yield page
    except GeneratorExit:
        print("left early at", page)
        raise
    finally:
        print("tidy")


def first_over(limit):
    for page in pages(10):
        if page > limit:
            return page


print(first_over(2))
whole = list(pages(2))
print(whole)
stubborn = pages(5)
print(next(stubborn), next(stubborn))
del stubborn
squares = (n * n for n in range(4))
print(next(squares), sum(squares), next(squares, "empty"))
