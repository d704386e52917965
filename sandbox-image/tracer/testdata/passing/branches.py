"""A dispatch over so many branches that the ways between them are too many to keep, among functions with few."""

import random


def tree(low, high, indent):
    pad = "    " * indent
    if high - low == 1:
        return f"{pad}x = x * 3 % 1009 + {low}\n{pad}if x == 7:\n{pad}    told.append(op)\n"
    middle = (low + high) // 2
    return f"{pad}if op < {middle}:\n" + tree(low, middle, indent + 1) + f"{pad}else:\n" + tree(middle, high, indent + 1)


def chain(count):
    text = ""
    for op in range(count):
        text += f"        {'elif' if op else 'if'} op == {op}:\n            x = (x + {op}) % 1013\n"
    return text


names = {}
exec("def dispatch(ops, told, x=0):\n    for op in ops:\n" + tree(0, 48, 2) + "    return x, told[-5:]\n", names)
exec("def follow(ops, x=0):\n    for op in ops:\n" + chain(40) + "    return x\n", names)


def generate(ops):
    for op in ops:
        yield names["dispatch"]([op, (op * 7) % 48, (op * 5) % 48], [])[0]


random.seed(11)
ops = [random.randrange(48) for _ in range(5000)]
print(names["dispatch"](ops, []), names["follow"]([op % 40 for op in ops[:3000]]))
print(sum(generate(ops[:500])), names["dispatch"](ops[:700], []))
