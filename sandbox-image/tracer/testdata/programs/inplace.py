def f(a, b):
    a += [1]
    c = b
    b += 1
    a *= 2
    t = 1
    t += 2
    return t
f([0], 1)
def g(x):
    for i in iter(x.pop, 0):
        y = i
        z = y
    return x
g([0,1,2])
class V:
    def __init__(self): self.n = 0
    def __add__(self, o):
        self.n += o
        return self
def h():
    v = V()
    w = v + 1
    q = 1
    return q
h()
