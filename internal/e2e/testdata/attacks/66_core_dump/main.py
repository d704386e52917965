"""Dies of a fault with a large heap after asking for a core dump: neither host nor sandbox may keep one."""
import ctypes
import os
import resource

try:
    resource.setrlimit(resource.RLIMIT_CORE, (1 << 30, 1 << 30))
    print("PROBE core_limit BREACH raised")
except (OSError, ValueError):
    print("PROBE core_limit ok refused")
heap = bytearray(b"core-dump-marker") * (4 << 20)
child = os.fork()
if child == 0:
    ctypes.string_at(8)
status = os.waitpid(child, 0)[1]
print("PROBE core_of_child", "BREACH" if os.WCOREDUMP(status) else "ok", *sorted(os.listdir("/job")), flush=True)
ctypes.string_at(8)
