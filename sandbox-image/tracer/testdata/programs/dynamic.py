import collections
import dataclasses

exec("""
def made(n):
    total = 0
    for i in range(n):
        total += i
    return total
""")
for _ in range(3):
    eval("made(2) + 1")
Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Box:
    size: int


code = compile("def late():\n    return 5\nlate()\n", "<notes>", "exec")
exec(code)
print(Pair(1, 2), Box(3), [late() for _ in range(2)])
exec("raise ValueError('from text')")
