"""``python3 /usr/lib/tracefleet/tracer`` becomes the interpreter that waits for the job."""

import os
import sys

os.chdir("/job")
os.execv(sys.executable, ["python3", "-X", "tracefleet", "main.py"])
