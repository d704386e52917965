import os
import subprocess
import sys


def only_in_child():
    print("child says", 6 * 7, flush=True)
    os._exit(3)


done = subprocess.run([sys.executable, "-c", "import sys; print(sys.stdin.read().upper()); sys.exit(4)"], input="hello", text=True,
                      capture_output=True)
print(done.returncode, done.stdout.strip(), repr(done.stderr))
child = os.fork()
if child == 0:
    only_in_child()
_, status = os.waitpid(child, 0)
print("child left with", os.waitstatus_to_exitcode(status))
