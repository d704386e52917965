"""Hoards memory outside its own heap: memory files, which no limit on processes or heaps sees."""
import os

print("START", flush=True)
kept = []
block = b"x" * (1 << 20)
for n in range(24):
    descriptor = os.memfd_create(str(n), 0)
    kept.append(descriptor)
    try:
        for _ in range(64):
            os.write(descriptor, block)
    except OSError:
        pass  # larger than a file may be
print("PROBE memory_files BREACH", sum(os.fstat(d).st_size for d in kept) >> 20, "MiB")
print("DONE")
