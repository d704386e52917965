"""The tracer that runs inside the sandbox, in the program's own interpreter.

The supervisor starts, with the working directory ``/job`` and descriptors 0-4 as below,

    /usr/bin/python3 -X tracefleet main.py

before any job is known. ``tracefleet.pth`` (installed in ``/usr/lib/python3/dist-packages``) calls
``start()`` from the interpreter's ``site`` phase when, and only when, that -X option is there.
``start()`` reports ready, blocks until the job arrives, prepares the recorder and returns: from
then on the interpreter does by itself what ``cd /job && python3 ENTRYPOINT ARGS`` does. So the
program's frames, modules, tracebacks, exit code and output are CPython's own. That another file than
``main.py`` is to be run is put into the interpreter's configuration, which is not read before ``site`` is done.

Descriptors: 0, 1, 2 belong to the program. 3 is the control channel: the tracer writes one line,
``{"python":"3.13.5","tracer":"c/1"}``, reads one line, the order (see ``control.Order``), and writes one byte
when the program starts. 4 is the trace memory, a sealed memfd. 3 and 4 are closed before the program runs.

The parts, from the outside in:

* ``control`` (ready line, order), ``process`` (limits, argv, what the program may see), ``session`` (from an empty
  interpreter to one ready to run, and the end record), ``departure`` (whether it may leave at once then);
* ``memory`` (areas, framing of records, counters), ``failure`` (report of the uncaught exception), ``raw`` (looking at
  objects without running the program's code);
* the recorder: ``recorder`` and ``attachment`` connect the program with ``_recorder``, which is written in C
  (``native``) and compiled for exactly this interpreter. What it writes is in docs/trace-format.md.
"""

import builtins
import marshal
import os
import sys
from _thread import _is_main_interpreter as is_main_interpreter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

FAILED = 70
"""Exit status when the tracer itself cannot start; the program has not run then."""

HEADER, LARGEST = 16, 1 << 16
"""Bytes before the code in a compiled file, and more of them than any of the tracer's has."""

MODULES = (
    "memory", "raw", "failure", "attachment", "recorder", "control", "process", "departure", "session",
)
"""The tracer's modules, each after those that it imports."""


def start():
    # type: () -> None
    """Wait for the order and prepare the interpreter for the program.

    Never raises: ``site`` would print an error and run the program untraced. Does nothing in a
    subinterpreter, which starts with the same options.
    """
    loaded = set(sys.modules) - {__name__}
    try:
        if is_main_interpreter():
            import gc

            collections = gc.get_count()[1]
            _load()
            _freeze(collections)
            sys.modules[__name__ + ".session"].begin()
    except BaseException as error:  # the process ends here
        os.write(2, f"tracer: cannot start: {type(error).__name__}: {error}\n".encode())
        os._exit(FAILED)
    for name in set(sys.modules) - loaded:
        del sys.modules[name]


def _freeze(collections):
    # type: (int) -> None
    """Keep all that is loaded away from the garbage collector.

    It lives until the end, and the collections at the interpreter's end would take it to pieces, which takes
    as long as a small program. What the program makes is collected as ever. For that its namespace,
    which exists already, is spared. Nothing is collected first, which would take a third of the time that the tracer takes to load.

    ``collections`` is how many of the youngest objects there have been since one of the older: with so many
    again the collector's clock stands where it would without the tracer, so that cycles of the
    program's objects go when they would go.
    """
    import gc

    recorder = sys.modules[__name__ + "._recorder"]
    recorder.except_for(vars(sys.modules["__main__"]), gc.freeze)
    for _ in range(collections):
        gc.collect(0)


def _load():
    # type: () -> None
    """Load the tracer's modules with a private copy of the builtins, which the program cannot change."""
    private = dict(vars(builtins))
    # The modules want annotations to be texts. What they import for it they do not use, and it is in a file.
    future = sys.modules["__future__"] = type(sys)("__future__")
    vars(future)["annotations"] = None
    for name in MODULES:
        full = f"{__name__}.{name}"
        module = type(sys)(full)
        vars(module).update(__builtins__=private, __package__=__name__)
        sys.modules[full] = module
        exec(_code(name), vars(module))
        setattr(sys.modules[__name__], name, module)


def _code(name):
    # type: (str) -> CodeType
    """Return the code of a module from its compiled file, which the image has for certain: a loader would look at the source first."""
    file = os.open(f"{__path__[0]}/__pycache__/{name}.{sys.implementation.cache_tag}.pyc", os.O_RDONLY | os.O_CLOEXEC)
    compiled = os.read(file, LARGEST)
    os.close(file)
    return marshal.loads(memoryview(compiled)[HEADER:])
