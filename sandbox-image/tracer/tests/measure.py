"""Measures, inside the sandbox image, what the tracer costs: traced and untraced runs side by side.

    measure.py ROUNDS SCALE WORKLOAD...

Prints one JSON document: for each workload and setting the CPU seconds of each round, for each workload the
trace areas of one run with a budget of 10,000 events, the seconds of three special programs, and the
milliseconds that starting takes. CPU time, because the machine has other work too. The trace memory is
written to before a run: what the kernel takes to hand out new pages is not the tracer's.
"""

from __future__ import annotations

import base64
import json
import pathlib
import resource
import sys
from collections.abc import Callable
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import drive

FOREVER = 600_000
ALL = 100_000_000
SETTINGS: dict[str, dict[str, Any]] = {
    "full": {"mode": "full", "events": ALL},
    "lines": {"mode": "lines", "events": ALL},
    "calls": {"mode": "calls", "events": ALL},
    "after_budget_exact": {"mode": "full", "events": 10_000},
    "after_budget": {"mode": "full", "events": 10_000, "exact_ms": 5},
}
FULL_BYTES = 256 << 20
"""Room for all events of a run: what is measured must not end early."""


def program(path: pathlib.Path, scale: float) -> str:
    """Return a workload that prints the CPU time it took and how many bytes of events there are room for."""
    return (
        f"import time; SCALE = {scale}; STARTED = time.process_time()\n"
        f"{path.read_text()}\nprint('cpu', time.process_time() - STARTED)\n"
    )


def seconds(outcome: dict[str, Any]) -> float:
    """Return the CPU time that a program printed last."""
    text = base64.b64decode(outcome["stdout"]).decode()
    if outcome["returncode"] != 0:
        raise SystemExit(base64.b64decode(outcome["stderr"]).decode())
    return float(text.rsplit("cpu", 1)[1])


def starting(rounds: int) -> dict[str, list[float]]:
    """Return the CPU milliseconds of processes that run an empty program, untraced and traced."""
    spent: dict[str, list[float]] = {"plain": [], "traced": []}
    job = {"files": {"main.py": ""}}
    for _ in range(4 * rounds):
        runs: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [("plain", drive.run_plain), ("traced", drive.run_traced)]
        for name, run in runs:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run(job)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent[name].append(1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return spent


SPECIAL = {
    "literal": "table = {\n" + "    'key': 'value',\n" * 16_000 + "}\n",
    "append": "def work():\n    items = list(range(1_000_000))\n    for i in range(30_000):\n        items.append(i)\nwork()\n",
    "append_to_short": "def work():\n    items = []\n    for i in range(30_000):\n        items.append(i)\nwork()\n",
}


def special(rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return the CPU seconds of programs with one odd property each."""
    times: dict[str, dict[str, list[float]]] = {}
    for name, text in SPECIAL.items():
        times[name] = {"plain": [], "traced": []}
        job = {"files": {"main.py": f"import time; STARTED = time.process_time()\n{text}print('cpu', time.process_time() - STARTED)\n"}}
        for _ in range(rounds):
            times[name]["plain"].append(seconds(drive.run_plain(job)))
            times[name]["traced"].append(seconds(drive.run_traced({**job, "events": ALL, "trace_bytes": 64 << 20}, False)))
    return times


def main() -> None:
    """Run everything named on the command line."""
    rounds, scale = int(sys.argv[1]), float(sys.argv[2])
    times: dict[str, dict[str, list[float]]] = {}
    areas, counted = {}, {}
    for path in map(pathlib.Path, sys.argv[3:]):
        name = path.stem
        times[name] = {key: [] for key in ("plain", *SETTINGS)}
        few, many = program(path, scale), program(path, 10 * scale)
        for _ in range(rounds):
            times[name]["plain"].append(seconds(drive.run_plain({"files": {"main.py": few}, "seconds": 600})))
            times[name].setdefault("plain_long", []).append(seconds(drive.run_plain({"files": {"main.py": many}, "seconds": 600})))
            for key, setting in SETTINGS.items():
                whole = setting["events"] == ALL
                job = {"files": {"main.py": few if whole else many}, "seconds": 600, "exact_ms": FOREVER, **setting}
                outcome = drive.run_traced({**job, "trace_bytes": FULL_BYTES if whole else 64 << 20, "touch": True, "cpu_s": 600}, key == "after_budget_exact")
                times[name][key].append(seconds(outcome))
                if key == "after_budget_exact":
                    areas[name] = outcome["areas"]
                elif key == "full":
                    counted[name] = outcome["areas"]
        print(name, file=sys.stderr)
    document = {"seconds": times, "areas": areas, "full": counted, "special": special(rounds), "start": starting(rounds)}
    print(json.dumps(document))


if __name__ == "__main__":
    main()
