from ..animals import Cow


def weigh(cow: Cow):
    return 600 + len(cow.name)
