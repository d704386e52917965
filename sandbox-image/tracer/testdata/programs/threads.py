import threading


def count(n):
    total = 0
    for i in range(n):
        total += i
    return total


def fail():
    raise ValueError("in a thread")


for target, arguments in ((count, (3,)), (fail, ())):
    thread = threading.Thread(target=target, args=arguments)
    thread.start(); thread.join()  # one line: nothing of this thread runs beside the other
