# Each call should start an empty list, but a default value is made only once,
# when the function is defined: the second call finds what the first one left.
def collect(value, into=[]):
    into.append(value)
    return into


first = collect("red")
second = collect("blue")
print(first, second)
