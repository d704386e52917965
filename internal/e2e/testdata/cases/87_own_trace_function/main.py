import sys

seen = []


def watch(frame, event, argument):
    if frame.f_code.co_name == "square":
        seen.append((event, frame.f_lineno))
    return watch


def square(n):
    result = n * n
    return result


sys.settrace(watch)
square(3)
sys.settrace(None)
print(seen, square(4))
profiled = []
sys.setprofile(lambda frame, event, argument: profiled.append(event) if frame.f_code.co_name == "square" else None)
square(5)
sys.setprofile(None)
print(profiled)
