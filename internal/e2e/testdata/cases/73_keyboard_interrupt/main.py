def wait():
    print("waiting")
    raise KeyboardInterrupt


try:
    wait()
except Exception:
    print("not an Exception")
