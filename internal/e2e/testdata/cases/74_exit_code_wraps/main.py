import sys

try:
    sys.exit(256 + 255)
except SystemExit as leaving:
    print("caught", leaving.code)
print("left with", -1)
sys.exit(-1)
