import logging
import os
import sys

logging.basicConfig(format="%(levelname)s %(name)s %(message)s")
log = logging.getLogger("shop")
print("one")
print("two", file=sys.stderr)
log.warning("stock is %d", 3)
log.info("not shown")
print("three", end="")
sys.stdout.flush()
os.write(1, b" four\n")
sys.stdout.buffer.write("fünf\n".encode())
sys.stdout.write("six\n")
print("seven", "eight", sep="\t", end="\r\n")
sys.stderr.write("no line end")
