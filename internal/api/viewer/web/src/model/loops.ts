// A loop as a table: one row for each pass, one column for each name it changes.
import type { Frame, Run } from "./run";
import type { Loop, Syntax } from "./syntax";

/** One pass through the body of a loop. */
export interface Pass {
  number: number;
  /** The step of the loop's head. */
  from: number;
  /** The step at which the pass is over and its last change is seen. */
  to: number;
  /** True when an exception left the pass, or the recording stops in it. */
  broken: boolean;
}

/** The passes of one execution of a loop. */
export interface Passes {
  loop: Loop;
  frame: Frame;
  passes: Pass[];
  columns: string[];
  /** True when passes before these are missing from the recording. */
  afterGap: boolean;
}

const MAX_COLUMNS = 8;

/** The passes of the loop in the frame whose execution holds the step, or comes nearest before it. */
export function passesOf(run: Run, syntax: Syntax, loop: Loop, frame: Frame, step: number): Passes | null {
  const executions = split(run, loop, frame);
  const passes = executions.findLast((e) => (e[0]?.from ?? Infinity) <= step) ?? executions[0];
  if (!passes || passes.length === 0) return null;
  const first = passes[0]?.from ?? 0;
  const afterGap = run.gapBetween(run.previousInFrame(first), first) !== undefined;
  return { loop, frame, passes, afterGap, columns: columnsOf(run, syntax, loop, frame, passes) };
}

/** The passes of every execution of the loop in a frame. */
function split(run: Run, loop: Loop, frame: Frame): Pass[][] {
  const executions: Pass[][] = [];
  let current: Pass[] = [];
  let head = -1;
  const inside = (line: number) => line >= loop.line && line <= loop.endLine;
  const close = (to: number, broken: boolean, body: boolean) => {
    if (head >= 0 && (body || loop.endLine === loop.line)) {
      current.push({ number: current.length + 1, from: head, to, broken });
    }
    head = -1;
  };
  let body = false;
  let before = -1;
  for (const step of frame.steps) {
    const event = run.event(step);
    if (before >= 0 && run.gapBetween(before, step)) {
      close(before, true, body);
      if (current.length > 0) executions.push(current);
      current = [];
      body = false;
    }
    before = step;
    if (event.event === "exception") {
      if (head >= 0) body = true;
      continue;
    }
    if (event.event !== "line") {
      if (event.event === "return" || event.event === "unwind") close(step, event.event === "unwind", body);
      continue;
    }
    if (event.line === loop.line) {
      if (head < 0) {
        if (current.length > 0) executions.push(current);
        current = [];
      }
      close(step, false, body);
      head = step;
      body = false;
    } else if (inside(event.line)) body = true;
    else if (head >= 0) close(step, false, body);
  }
  close(frame.steps.at(-1) ?? -1, true, body);
  if (current.length > 0) executions.push(current);
  return executions;
}

/** The names a loop changes: those its statements assign, in their order, that it does change. */
function columnsOf(run: Run, syntax: Syntax, loop: Loop, frame: Frame, passes: Pass[]): string[] {
  const from = passes[0]?.from ?? 0;
  const to = passes.at(-1)?.to ?? 0;
  const changed = new Set<string>();
  for (const step of frame.steps) {
    if (step <= from || step > to || changed.size >= 40) continue;
    for (const name of run.changed(step)) changed.add(name);
  }
  const written = new Set<string>();
  for (let line = loop.line; line <= loop.endLine; line++) {
    for (const name of syntax.statements.get(line)?.writes ?? []) written.add(name);
  }
  const ordered = [...written].filter((name) => changed.has(name));
  return [...ordered, ...[...changed].filter((name) => !written.has(name))].slice(0, MAX_COLUMNS);
}

/** The rows worth showing of a long table: 20 first, 20 last, and 10 on either side of the current one. */
export function excerpt(passes: Pass[], current: number): (Pass | null)[] {
  const rows: (Pass | null)[] = [];
  passes.forEach((pass, i) => {
    const near = Math.abs(i - current) <= 10;
    if (i < 20 || i >= passes.length - 20 || near) rows.push(pass);
    else if (rows.at(-1) !== null) rows.push(null);
  });
  return rows;
}

/** The index of the pass that a step is in, or -1. */
export function passAt(passes: Pass[], step: number): number {
  return passes.findIndex((p, i) => step >= p.from && (step < p.to || (i === passes.length - 1 && step <= p.to)));
}
