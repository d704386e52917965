import sys


def check(value):
    if value > 2:
        sys.exit(f"value too large: {value}")
    return value


for n in range(5):
    print(check(n))
