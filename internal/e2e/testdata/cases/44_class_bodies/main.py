class Field:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner):
        return self if instance is None else instance.__dict__[self.name]

    def __set__(self, instance, value):
        if value < 0:
            raise ValueError(self.name)
        instance.__dict__[self.name] = value


class Base:
    kinds = []

    def __init_subclass__(cls, **options):
        super().__init_subclass__()
        Base.kinds.append((cls.__name__, options))


class Box(Base, unit="cm"):
    width = Field()
    height = Field()
    sizes = [n * 10 for n in range(3)]
    for size in sizes:
        largest = size

    class Lid:
        shape = "flat"

    def __init__(self, width, height):
        self.width = width
        self.height = height


box = Box(3, 4)
print(Base.kinds, Box.largest, Box.Lid.shape)
try:
    box.width = -1
except ValueError as error:
    print("refused", error, box.width)
