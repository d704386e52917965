from contextlib import ExitStack, suppress


class Quiet:
    def __init__(self, *kinds):
        self.kinds = kinds
        self.seen = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.seen = kind and kind.__name__
        return kind is not None and issubclass(kind, self.kinds)


def risky(n):
    with Quiet(ZeroDivisionError) as quiet:
        value = 10 // n
        return value, quiet.seen
    return "suppressed", quiet.seen


print(risky(2), risky(0))
with ExitStack() as stack:
    stack.callback(print, "last")
    stack.enter_context(suppress(KeyError))
    stack.callback(print, "first")
    {}["missing"]
with Quiet(ValueError) as outer:
    with Quiet(KeyError) as inner:
        int("x")
print(inner.seen, outer.seen)
with Quiet(KeyError):
    [][0]
