from .animals import Cow


class Barn:
    def __init__(self, herd):
        self.herd = [cow for cow in herd if isinstance(cow, Cow)]

    def count(self):
        return len(self.herd)
