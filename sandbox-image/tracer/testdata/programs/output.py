import os
import sys

print("one", flush=True)
print("two", end="")
print("err", file=sys.stderr)
print()
sys.stdout.flush()
os.write(1, b"raw\n")
sys.stdout.write("ü\n")
print("end", flush=True)
