// Just enough to write tests with, in a browser: the tests of the model run
// where the model runs.

interface Test {
  name: string;
  body: () => void | Promise<void>;
}

const tests: Test[] = [];

/** Adds a test. */
export function test(name: string, body: () => void | Promise<void>): void {
  tests.push({ name, body });
}

/** Fails unless both are the same, compared as JSON. */
export function equal(got: unknown, want: unknown, what = ""): void {
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)];
  if (a !== b) throw new Error(`${what ? what + ": " : ""}got ${a}, want ${b}`);
}

/** Runs all tests and gives the failures, one text each. */
export async function runAll(): Promise<{ passed: number; failures: string[] }> {
  const failures: string[] = [];
  for (const t of tests) {
    try {
      await t.body();
    } catch (error) {
      failures.push(`${t.name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return { passed: tests.length - failures.length, failures };
}
