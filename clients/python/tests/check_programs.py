"""The programs through a real fleet at TRACEFLEET_URL, as a batch; go test ./clients/python starts one."""

from __future__ import annotations

import asyncio
import unittest
from typing import Any

from tracefleet import AsyncTraceClient, JobOptions, execra

from .programs import BAD, GOOD
from .test_execra import analyze

PATIENT: JobOptions = {"limits": {"wall_ms": 100_000, "cpu_ms": 60_000}}
BRIEF: JobOptions = {"limits": {"wall_ms": 3_000, "cpu_ms": 2_000}}


class ProgramsTest(unittest.TestCase):
    """What ErrorDetector says of them."""

    def test_batch(self) -> None:
        """The programs that are well have no error, and the others exactly theirs, each once."""
        codes = {**GOOD, **{name: code for name, (code, _) in BAD.items()}}
        self.assertEqual(len(codes), 70)
        documents = asyncio.run(self.run_all(list(codes.values())))
        for name, document in zip(codes, documents, strict=True):
            want = BAD[name][1] if name in BAD else []
            with self.subTest(name):
                self.assertEqual(sorted(map(str, analyze(execra.error_events(document)))), sorted(map(str, want)), document["headline"])

    async def run_all(self, codes: list[str]) -> list[dict[str, Any]]:
        """Return what Execra gets of each program."""
        documents: list[dict[str, Any]] = [{} for _ in codes]
        async with AsyncTraceClient.from_env() as client:
            # One of them never ends.
            jobs = [(code, BRIEF if "while n < 5" in code else PATIENT) for code in codes]
            async for item in client.map(jobs, concurrency=8):
                if item.error:
                    raise item.error
                assert item.result
                documents[item.index] = await client.execra(item.result.id)
        return documents


if __name__ == "__main__":
    unittest.main()
