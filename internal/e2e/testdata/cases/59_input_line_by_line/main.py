import sys

totals = {}
for number, line in enumerate(sys.stdin, start=1):
    line = line.rstrip("\n")
    if not line or line.startswith("#"):
        continue
    name, _, amount = line.partition("=")
    totals[name] = totals.get(name, 0) + int(amount)
    print(number, name, totals[name])
print(totals, sys.stdin.read() == "")
try:
    input("more? ")
except EOFError:
    print("no more")
