# Prints every reading, and then one more that is not there: the range ends
# one too far, so the last pass ends in an IndexError.
readings = [18, 21, 19]
for i in range(len(readings) + 1):
    print("reading", i + 1, "is", readings[i])
