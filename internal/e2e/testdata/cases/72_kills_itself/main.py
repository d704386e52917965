import os
import signal


def handler(number, frame):
    print("handled", signal.Signals(number).name, frame.f_code.co_name)


def loop(n):
    total = 0
    for i in range(n):
        total += i
        if i == 3:
            os.kill(os.getpid(), signal.SIGUSR1)
    return total


signal.signal(signal.SIGUSR1, handler)
print(loop(5))
os.kill(os.getpid(), signal.SIGKILL)
print("not reached")
