import inspect
import sys
import threading
import traceback

print(len(inspect.stack()), len(traceback.extract_stack()), sys._getframe().f_back)
print(sorted(name for name in globals() if name.startswith("__")))
print(__name__, __spec__, __doc__, sys.modules["__main__"].__dict__ is globals())
print(threading.active_count(), threading.current_thread().name, sys.gettrace(), sys.getprofile())
print([name for name in ("json", "mmap", "ctypes", "struct", "tracer", "pickle") if name in sys.modules])
print(sys.getrecursionlimit(), sys.stdout.encoding, sys.stdin.read())


def fail():
    try:
        1 / 0
    except ZeroDivisionError:
        return [frame.name for frame in traceback.extract_stack()], traceback.format_exc().count("File ")


print(fail())
