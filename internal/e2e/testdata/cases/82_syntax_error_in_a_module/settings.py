limit = 10
def check(value)
    return value < limit
