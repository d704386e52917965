"""The main thread waits for a signal while another one computes for long: nothing else ends its wait."""
import os
import signal
import threading
import time

ended = False


def compute():
    global ended
    n = 0
    while time.process_time() < 2.2:
        n += 1
    ended = True
    os.kill(os.getpid(), signal.SIGUSR1)


signal.signal(signal.SIGUSR1, lambda number, frame: None)
threading.Thread(target=compute).start()
signal.pause()
print("ended:", ended)
