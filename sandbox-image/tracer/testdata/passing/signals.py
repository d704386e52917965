"""Variables that handlers of signals change, through the frame that they are called with."""
import signal

def interrupted(rounds):
    a = c = 0
    for i in range(rounds):
        b = i
        signal.raise_signal(signal.SIGUSR1)
        a = b
        c = a
    return a, b, c

def with_frame(number, frame):
    frame.f_locals["a"] = 1000 + frame.f_locals["b"]

def with_any(*arguments):
    arguments[1].f_locals["a"] = 2000

class Handlers:
    def method(self, number, frame):
        frame.f_locals["c"] = 3000

for handle in (with_frame, with_any, Handlers().method):
    signal.signal(signal.SIGUSR1, handle)
    print(interrupted(30))
