import atexit
import sys

atexit.register(print, "at exit")


def work():
    try:
        raise ValueError("lost")
    finally:
        print("leaving")
        sys.exit(5)


try:
    work()
except ValueError:
    print("never here")
print("nor here")
