"""Forks in the midst of a traced call, and both go on: one report, one trace, everybody's output."""
import os


def work(name):
    total = 0
    for n in range(200):
        total += n
    print(name, total, flush=True)
    return total


def split():
    child = os.fork()
    work("child" if child == 0 else "parent")
    return child


for _ in range(3):
    child = split()
    if child == 0:
        os._exit(7)
    os.waitpid(child, 0)
print("DONE")
