import sys

for number in range(40_000):
    print(number, "bottles of beer")
    if number % 1000 == 0:
        print("so far", number, file=sys.stderr)
sys.stdout.write("x" * 70_000)
print("|end")
