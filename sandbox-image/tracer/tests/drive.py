"""Plays the supervisor for tests: runs programs plainly and under the tracer, and hands out what came of it.

    drive.py OUT JOB...

Each JOB is a JSON file ``{"files":{path:text},"entrypoint","args","stdin","mode","values","include",
"events","trace_bytes","exact_ms","seconds","plain","unbuffered","environment","pass_after","burst_ms",
"ignored","blocked","seed"}``; all but ``files``
have defaults, and with ``seed`` the program is a generated one. For a JOB
``name.json`` the outcome is written to ``OUT/name.json``: ``{"plain":{"returncode","stdout","stderr"},
"traced":{…,"ready","farewell"},"areas":[base64 of the committed bytes, for each area]}``. Byte strings are base64.
"""

from __future__ import annotations

import base64
import ctypes
import fcntl
import json
import os
import pathlib
import platform
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import generate

JOB = pathlib.Path("/job")
HEADER = 4096
PYTHON = "/usr/bin/python3"
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}
RT_SIGACTION, RT_SIGPROCMASK = (13, 14) if platform.machine() == "x86_64" else (134, 135)  # as the kernel numbers them
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def layout(trace_bytes: int) -> tuple[list[dict[str, int]], int]:
    """Return the areas and the size of the trace memory, as the supervisor lays them out."""
    areas, at = [], HEADER
    for capacity in (trace_bytes, 2 << 20, 512 << 10, 512 << 10, 132 << 10, 204 << 10):
        areas.append({"offset": at, "capacity": capacity})
        at += (capacity + 4095) & ~4095
    return areas, at


def write_files(files: dict[str, str]) -> None:
    """Make the job's folder hold exactly the files."""
    for old in JOB.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    for name, text in files.items():
        path = JOB / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def collect(process: subprocess.Popen[bytes], stdin: bytes, seconds: float) -> dict[str, Any]:
    """Feed a process, wait for it at most so long, and return how it ended."""
    try:
        out, err = process.communicate(stdin, timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    return {"returncode": process.returncode, "stdout": encode(out), "stderr": encode(err)}


def encode(data: bytes) -> str:
    """Return bytes as base64 text."""
    return base64.b64encode(data).decode()


def limit(job: dict[str, Any]) -> None:
    """Set, in the child of a plain run, the limits that the tracer sets, and signals as the supervisor does."""
    hand_down(0, 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (job.get("open_files", 32),) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 20,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def hand_down(ignored: int, blocked: int) -> None:
    """Ignore one signal and block one, each by its number and 0 for none, also those which the C library keeps for itself."""
    call = ctypes.CDLL(None).syscall
    for number in range(1, signal.NSIG):
        # By default none is ignored, whatever the engine was started with; SIGPIPE and SIGXFSZ the interpreter ignores itself.
        action = (ctypes.c_uint64 * 4)(signal.SIG_IGN if number == ignored else signal.SIG_DFL)
        call(RT_SIGACTION, number, action, None, 8)
    if blocked:
        call(RT_SIGPROCMASK, signal.SIG_BLOCK, ctypes.byref(ctypes.c_uint64(1 << (blocked - 1))), None, 8)


def start(arguments: list[str], environment: dict[str, str], **more: Any) -> subprocess.Popen[bytes]:
    """Start an interpreter in the job's folder with pipes as its streams."""
    return subprocess.Popen(
        arguments, executable=PYTHON, cwd=JOB, env={**ENVIRONMENT, **environment},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more,
    )


def run_plain(job: dict[str, Any]) -> dict[str, Any]:
    """Run the program as a shell would."""
    write_files(job["files"])
    options = ["-u"] if job.get("unbuffered") else []
    arguments = ["python3", *options, job.get("entrypoint", "main.py"), *job.get("args", [])]
    process = start(arguments, job.get("environment", {}), preexec_fn=lambda: limit(job))
    return collect(process, job.get("stdin", "").encode(), job.get("seconds", 20))


def run_traced(job: dict[str, Any], with_events: bool = True) -> dict[str, Any]:
    """Run the program as the supervisor does; without events the area of those is left out."""
    write_files({})
    areas, size = layout(job.get("trace_bytes", 4 << 20))
    memory = os.memfd_create("trace", os.MFD_ALLOW_SEALING)
    near, far = socket.socketpair()

    def arrange() -> None:
        control, trace = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (far.fileno(), memory))
        os.dup2(control, 3)
        os.dup2(trace, 4)
        os.closerange(5, 64)
        hand_down(job.get("ignored", 0), job.get("blocked", 0))

    process = start([PYTHON, "-X", "tracefleet", "main.py"], job.get("environment", {}), preexec_fn=arrange, close_fds=False)
    far.close()
    ready = near.makefile("rb").readline()
    write_files(job["files"])
    os.ftruncate(memory, size)
    if job.get("touch"):
        for at in range(0, size, 1 << 20):
            os.pwrite(memory, bytes(min(1 << 20, size - at)), at)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, SEALS)
    order = {
        "entrypoint": job.get("entrypoint", "main.py"), "no_archive": job.get("no_archive", True), "args": job.get("args", []), "mode": job.get("mode", "full"),
        "values": job.get("values", True), "include": job.get("include", ["."]), "events": job.get("events", 10000),
        "areas": areas, "size": size, "open_files": job.get("open_files", 32), "file_bytes": 16 << 20, "processes": 64,
        "cpu_s": job.get("cpu_s", 12), "exact_ms": job.get("exact_ms", 2500),
    }
    order["wall_end_ms"] = int(1000 * (time.monotonic() + job.get("seconds", 20)))
    for name in ("pass_after", "burst_ms", "cpu_ms"):
        if name in job:
            order[name] = job[name]
    near.sendall(json.dumps(order).encode() + b"\n")
    outcome = collect(process, job.get("stdin", "").encode(), job.get("seconds", 20))
    started = near.recv(1) == b"!"
    near.close()
    header = os.pread(memory, HEADER, 0)
    dumped, committed = [], []
    for index, area in enumerate(areas):
        used = min(int.from_bytes(header[8 + 8 * index : 16 + 8 * index], "little"), area["capacity"])
        committed.append(used)
        dumped.append(encode(os.pread(memory, used, area["offset"])) if with_events or index > 0 else "")
    os.close(memory)
    told = [int.from_bytes(header[at : at + 8], "little") for at in (56, 64, 72)]
    return {
        **outcome, "ready": json.loads(ready), "started": started, "areas": dumped, "committed": committed,
        "farewell": told[0] == 1 and told[1] == process.pid and told[2] > 0,
    }


def main() -> None:
    """Run every job named on the command line."""
    out = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:]:
        job = json.loads(pathlib.Path(name).read_text())
        if "seed" in job:
            job["files"] = {"main.py": generate.program(job["seed"])}
        traced = run_traced(job)
        outcome = {"traced": traced, "areas": traced.pop("areas")}
        if job.get("plain", True):
            outcome["plain"] = run_plain(job)
        (out / pathlib.Path(name).name).write_text(json.dumps(outcome))


if __name__ == "__main__":
    main()
