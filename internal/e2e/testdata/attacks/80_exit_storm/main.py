"""Leaves at once after its output, from a thread, with others still running: no byte may be lost."""
import os
import threading
import time

for _ in range(4):
    threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
os.write(1, b"x" * 99_999 + b"\n")
threading.Thread(target=os._exit, args=(6,)).start()
time.sleep(30)
