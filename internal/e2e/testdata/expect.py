"""Runs a program untraced by the fleet and prints what a want.json needs: output, exit code and counts.

    python3 expect.py main.py [ARG...]

Run it in the folder of the program. The program's stdout and stderr go where they always go; the counts follow on
stderr as JSON. They come from sys.monitoring and mean what want.json means.
"""
import json
import os
import sys

TOOL = 3
ENDS_OF_ITERATION = (StopIteration, StopAsyncIteration, GeneratorExit)


def main():
    root = os.getcwd() + os.sep
    path = os.path.abspath(sys.argv[1])
    entry = os.path.relpath(path, root)
    lines, calls, seen = {}, {}, []
    depth = {"now": 0, "max": 0}
    monitoring, events = sys.monitoring, sys.monitoring.events

    made = {}

    def keep(code):
        made[id(code)] = code
        for constant in code.co_consts:
            if isinstance(constant, type(code)):
                keep(constant)

    def audit(event, arguments):
        # exec and eval by own code: what they run is own code too, what libraries generate is not.
        if event == "exec" and own(sys._getframe(1).f_code):
            keep(arguments[0])

    def own(code):
        name = code.co_filename
        return os.path.relpath(name, root) if name.startswith(root) else name if id(code) in made else None

    def deeper():
        depth["now"] += 1
        depth["max"] = max(depth["max"], depth["now"])

    def started(code, offset):
        file = own(code)
        if file is None:
            return monitoring.DISABLE
        name = code.co_qualname if file == entry else f"{file}:{code.co_qualname}"
        calls[name] = calls.get(name, 0) + 1
        deeper()

    def went_on(code, *rest):
        if own(code) is not None:
            deeper()

    def left(code, *rest):
        if own(code) is not None:
            depth["now"] -= 1

    def line(code, number):
        file = own(code)
        if file is None:
            return monitoring.DISABLE
        hits = lines.setdefault(file, {})
        hits[number] = hits.get(number, 0) + 1

    def raised(code, offset, exception):
        if own(code) is not None and not isinstance(exception, ENDS_OF_ITERATION):
            if not any(exception is known for known in seen):
                seen.append(exception)

    sys.argv[:] = sys.argv[1:]
    sys.path[0] = os.path.dirname(path)
    module = type(sys)("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    sys.addaudithook(audit)
    monitoring.use_tool_id(TOOL, "expect")
    for event, callback in ((events.PY_START, started), (events.LINE, line), (events.RAISE, raised), (events.PY_RETURN, left),
                            (events.PY_YIELD, left), (events.PY_UNWIND, left), (events.PY_RESUME, went_on), (events.PY_THROW, went_on)):
        monitoring.register_callback(TOOL, event, callback)
    monitoring.set_events(TOOL, events.PY_START | events.LINE | events.RAISE | events.PY_RETURN | events.PY_YIELD
                          | events.PY_UNWIND | events.PY_RESUME | events.PY_THROW)
    try:
        exec(code, module.__dict__)
    finally:
        import threading
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        monitoring.set_events(TOOL, 0)
        sys.stdout.flush()
        print("\n" + json.dumps({"lines": lines, "calls": calls, "total_calls": sum(calls.values()),
                          "max_recursion_depth_of_one_thread": depth["max"], "exceptions_caught": len(seen)}), file=sys.stderr)


main()
