class Problem(Exception):
    pass


class Small(Problem):
    pass


def attempt(n):
    try:
        if n == 0:
            raise Small("zero")
        if n == 1:
            raise TypeError("one")
        result = 6 // (n - 2)
    except Small:
        return "small"
    except (TypeError, ValueError) as error:
        raise Problem("wrapped") from error
    except ArithmeticError:
        print("again")
        raise
    else:
        return result
    finally:
        print("done", n)


for n in (0, 1, 3, 2):
    try:
        print(attempt(n))
    except Problem as problem:
        print(problem, type(problem.__cause__).__name__)
