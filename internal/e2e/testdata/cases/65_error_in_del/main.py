class Handle:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        print("closing", self.name)
        if self.name == "b":
            raise OSError("cannot close")


def use():
    a, b = Handle("a"), Handle("b")
    return a.name + b.name


print(use())
keep = Handle("c")
print("end")
