"""Runs generated programs plainly and traced, and reports those whose runs differ.

    generated.py OUT FIRST COUNT [SEED...]

The programs are modules that one process imports, ``BATCH`` at a time, as starting takes longest. The
numbers of those that differ go to ``OUT/generated.json`` with both endings. What differs between plain runs
too is left out.
"""

from __future__ import annotations

import base64
import json
import pathlib
import re
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import drive
import generate

ADDRESS = re.compile(rb"0x[0-9a-f]+")
SECONDS = 60
BATCH = 20
MAIN = """\
import sys
for name in sys.argv[1:]:
    try:
        __import__(name)
        print("end of", name)
    except BaseException as error:
        print(name, "ended by", type(error).__name__)
"""


def job_of(seeds: list[int]) -> dict[str, Any]:
    """Return the job that runs the programs of some seeds."""
    files = {f"p{seed}.py": generate.program(seed) for seed in seeds}
    few, bursts = seeds[0] // BATCH % 3 == 0, seeds[0] // BATCH % 3 == 1
    job = {"files": {"main.py": MAIN, **files}, "args": [f"p{seed}" for seed in seeds], "seconds": SECONDS, "events": 100 if few else 20_000}
    return {**job, "exact_ms": 0, "burst_ms": 1} if bursts else job


def ending(outcome: dict[str, Any]) -> tuple[int, bytes, bytes]:
    """Return how a run ended, addresses left out."""
    out, err = (ADDRESS.sub(b"0x", base64.b64decode(outcome[name])) for name in ("stdout", "stderr"))
    return outcome["returncode"], out, err


def differs(seeds: list[int]) -> list[dict[str, Any]]:
    """Run some programs; of those that differ return what is different."""
    job = job_of(seeds)
    plain, traced = ending(drive.run_plain(job)), ending(drive.run_traced(job, False))
    if plain == traced or (len(seeds) == 1 and plain[0] < 0):
        return []  # the same, or too long for a verdict
    if len(seeds) > 1:
        return [found for seed in seeds for found in differs([seed])]
    others = [ending(drive.run_plain(job)) for _ in range(5)]
    if traced in others:
        return []
    return [{"seed": seeds[0], "plain": repr(plain), "traced": repr(traced)}]


def main() -> None:
    """Run the seeds of the command line."""
    out, first, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    seeds = [*map(int, sys.argv[4:]), *range(first, first + count)]
    found: list[dict[str, Any]] = []
    for at in range(0, len(seeds), BATCH):
        new = differs(seeds[at : at + BATCH])
        found += new
        for one in new:
            print("differs:", one["seed"], flush=True)
        if at % 500 == 0:
            print(at + BATCH, "done", flush=True)
    (out / "generated.json").write_text(json.dumps({"programs": len(seeds), "differing": found}))


if __name__ == "__main__":
    main()
