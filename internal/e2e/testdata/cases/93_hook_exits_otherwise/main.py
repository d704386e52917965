import sys


def report(kind, error, traceback):
    print(f"sorry: {error}")
    sys.exit(42)


sys.excepthook = report
prices = {"tea": 3}
print(prices["coffee"])
