"""Starts short-lived processes as fast as it can: the supervisor must reap them all and still be in time."""
import os
import time

print("START", flush=True)
while True:
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            os._exit(0)  # an orphan, for PID 1 to reap
        os._exit(0)
    os.waitpid(child, 0)
