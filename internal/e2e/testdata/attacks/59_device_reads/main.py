"""Reads devices that never end: the clock is not the program's."""
print("START", flush=True)
with open("/dev/zero", "rb", buffering=0) as zero, open("/dev/urandom", "rb", buffering=0) as noise:
    while True:
        zero.read(1 << 20)
        noise.read(1 << 16)
