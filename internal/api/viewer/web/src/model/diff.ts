// The first difference between two runs: the same program with other input, or
// a program and its corrected version.
import { exceptionLine } from "./words";
import { functionName, type Run } from "./run";

/** Where two runs part. */
export interface Difference {
  kind: "none" | "values" | "path" | "end" | "empty";
  /** The steps in the two runs; the last ones where a run had ended. */
  a: number;
  b: number;
  sentence: string;
  values: { name: string; a: string; b: string }[];
}

const TEXT_LIMIT = 200;

/** Walks two runs in lock-step, over lines that both have, until they differ. */
export function firstDifference(a: Run, b: Run): Difference {
  if (a.length === 0 || b.length === 0) {
    return { kind: "empty", a: 0, b: 0, sentence: "One of the two runs has no recorded steps.", values: [] };
  }
  const lines = new LineMap(a, b);
  const pending = new Set<string>();
  let i = 0;
  let j = 0;
  for (;;) {
    if (a.gaps.some((g) => g.before === i) || b.gaps.some((g) => g.before === j)) return atGap(a, i, j);
    while (i < a.length && lines.onlyInA(i)) note(a, i++, pending);
    while (j < b.length && lines.onlyInB(j)) note(b, j++, pending);
    if (i >= a.length || j >= b.length) return atEnd(a, b, i, j);
    if (!lines.same(i, j)) return { kind: "path", a: i, b: j, sentence: pathSentence(a, b, i, j), values: [] };
    note(a, i, pending);
    note(b, j, pending);
    const values = differing(a, b, i, j, pending);
    if (values.length > 0) return { kind: "values", a: i, b: j, sentence: valueSentence(a, i, values), values };
    i++;
    j++;
  }
}

/** Remembers what an event changed, by frame, until the runs are compared again. */
function note(run: Run, step: number, pending: Set<string>): void {
  for (const name of run.changed(step)) pending.add(name);
}

function differing(a: Run, b: Run, i: number, j: number, pending: Set<string>): Difference["values"] {
  const values: Difference["values"] = [];
  const [ea, eb] = [a.event(i), b.event(j)];
  const add = (name: string, x: string, y: string) => {
    if (x !== y) values.push({ name, a: x, b: y });
  };
  const va = a.variables(a.frameAt(i), i);
  const vb = b.variables(b.frameAt(j), j);
  for (const name of pending) {
    const shown = (run: Run, values: typeof va, step: number) => (values.has(name) ? run.text(values.get(name), step, TEXT_LIMIT) : "(nothing)");
    add(name, shown(a, va, i), shown(b, vb, j));
  }
  pending.clear();
  if ("value" in ea && "value" in eb) add("the returned value", a.text(ea.value, i, TEXT_LIMIT), b.text(eb.value, j, TEXT_LIMIT));
  if (ea.exception && eb.exception) add("the exception", exceptionLine(ea.exception), exceptionLine(eb.exception));
  return values;
}

/** Across a gap nobody knows what ran. */
function atGap(a: Run, i: number, j: number): Difference {
  return {
    kind: "end", a: Math.max(0, i - 1), b: Math.max(0, j - 1), values: [],
    sentence: `The runs are the same up to here, where events are missing from ${a.gaps.some((g) => g.before === i) ? "this run's" : "the other's"} recording.`,
  };
}

function atEnd(a: Run, b: Run, i: number, j: number): Difference {
  const [x, y] = [a.length - 1, b.length - 1];
  if (i >= a.length && j >= b.length) {
    const same = a.result.stdout === b.result.stdout && a.result.status === b.result.status;
    return {
      kind: "none", a: x, b: y, values: [],
      sentence: same ? "The two runs do the same, as far as they are recorded." : "The recorded steps are the same; the outcome is not.",
    };
  }
  const longer = i >= a.length ? "the other run" : "this run";
  return {
    kind: "end", a: Math.min(i, x), b: Math.min(j, y), values: [],
    sentence: `The runs are the same until ${longer} goes on where the ${i >= a.length ? "recording of this one" : "other's recording"} ends.`,
  };
}

function place(run: Run, step: number): string {
  const frame = run.frameAt(step);
  const e = run.event(step);
  const verb: Record<string, string> = { call: "enters", return: "returns from", exception: "raises in", unwind: "leaves by an exception", yield: "yields from", resume: "goes on in", throw: "throws into" };
  const name = functionName(frame.func);
  return e.event === "line" ? `runs ${frame.path}:${e.line}` : `${verb[e.event]} ${name} (${frame.path}:${e.line})`;
}

function pathSentence(a: Run, b: Run, i: number, j: number): string {
  return `The paths part: this run ${place(a, i)}, the other ${place(b, j)}.`;
}

function valueSentence(a: Run, i: number, values: Difference["values"]): string {
  const first = values[0];
  const frame = a.frameAt(i);
  return `The first difference is ${first?.name} in ${functionName(frame.func)} (${frame.path}:${a.event(i).line}): ${first?.a} here, ${first?.b} there.`;
}

/** Which lines of two versions of a program are the same line. */
class LineMap {
  private readonly toB = new Map<string, Map<number, number>>();
  private readonly fromB = new Map<string, Set<number>>();

  constructor(
    private readonly a: Run,
    private readonly b: Run,
  ) {
    for (const [path, lines] of a.sources) {
      const others = b.sources.get(path);
      if (!others) continue;
      const map = align(lines, others);
      this.toB.set(path, map);
      this.fromB.set(path, new Set(map.values()));
    }
  }

  onlyInA(step: number): boolean {
    const map = this.toB.get(this.a.frameAt(step).path);
    const e = this.a.event(step);
    return e.event === "line" && map !== undefined && !map.has(e.line);
  }

  onlyInB(step: number): boolean {
    const set = this.fromB.get(this.b.frameAt(step).path);
    const e = this.b.event(step);
    return e.event === "line" && set !== undefined && !set.has(e.line);
  }

  same(i: number, j: number): boolean {
    const [x, y] = [this.a.event(i), this.b.event(j)];
    const [f, g] = [this.a.frameAt(i), this.b.frameAt(j)];
    if (x.event !== y.event || f.func.name !== g.func.name || f.path !== g.path) return false;
    if (x.event !== "line") return true;
    return (this.toB.get(f.path)?.get(x.line) ?? x.line) === y.line;
  }
}

/** Aligns two texts: for each line of a that b has too, its number there (both from 1). */
export function align(a: string[], b: string[]): Map<number, number> {
  const map = new Map<number, number>();
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) map.set(++head, head);
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) {
    map.set(a.length - tail, b.length - tail);
    tail++;
  }
  const n = a.length - head - tail;
  const m = b.length - head - tail;
  if (n * m === 0 || n * m > 4_000_000) return map;
  const table = new Uint16Array((n + 1) * (m + 1));
  const at = (i: number, j: number) => table[i * (m + 1) + j] ?? 0;
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      table[i * (m + 1) + j] = a[head + i] === b[head + j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  for (let i = 0, j = 0; i < n && j < m; ) {
    if (a[head + i] === b[head + j]) map.set(head + ++i, head + ++j);
    else if (at(i + 1, j) >= at(i, j + 1)) i++;
    else j++;
  }
  return map;
}
