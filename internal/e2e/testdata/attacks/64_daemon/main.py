"""Leaves a daemon behind that has its own session, is deaf and holds the output: it must die with the sandbox."""
import os
import signal
import time

print("START", flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        os.setsid() if os.getpgrp() != os.getpid() and os.getsid(0) == os.getpid() else None
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with open("/tmp/alive", "w") as file:
                file.write(str(time.time()))
            time.sleep(0.01)
    os._exit(0)
os.wait()
time.sleep(0.2)
print("PROBE daemon ok left behind, alive:", os.path.exists("/tmp/alive"))
print("DONE")
