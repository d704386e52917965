// Why a value is what it is: from the value to the statement that last changed
// it, and to the values that this statement used.
//
// A line event comes before its line runs, so a changed variable was written by
// the line of the event before, in the same frame. An object is compared at
// every event that shows it, so it changed after the event before, in the same thread.
import { history } from "./history";
import { functionName, type Frame, type Run } from "./run";
import type { Statement, Syntax } from "./syntax";
import { isDeleted, refOf } from "./text";
import type { Value } from "./types";

/** Gives the syntax of a file, or undefined when its source is not known. */
export type SyntaxOf = (path: string) => Syntax | undefined;

/** A variable at a moment. */
export interface Place {
  frame: Frame;
  name: string;
  step: number;
}

/** A value that a statement used. */
export interface Operand extends Place {
  text: string;
  value: Value;
  /** True when it may have changed since it was last looked at. */
  stale: boolean;
}

/** A call that a statement made, and what came back. */
export interface Inner {
  frame: Frame;
  step: number;
  text: string;
}

/** One link of the chain. */
export interface Cause {
  subject: Place;
  /** The value it became. */
  text: string;
  /** What it was before; empty when there was nothing. */
  from: string;
  /** The step at which the new value is first seen. */
  seen: number;
  /** The step of the statement that made it, -1 when that is not in the trace. */
  made: number;
  /** The frame of that statement. */
  frame: Frame;
  line: number;
  source: string;
  /** In words: "assigned", "the object changed", "argument of f(…)". */
  how: string;
  /** False when another line may have done it as well. */
  sure: boolean;
  /** True for a = b, which only passes a value on. */
  copy: boolean;
  operands: Operand[];
  inner: Inner[];
  /** Why the chain stops here; empty when it goes on. */
  end: string;
  /** The last time it was assigned again without a change; -1 if never. */
  again: number;
}

const TEXT_LIMIT = 120;

/** Explains the value that a variable has at a step; null when it has none. */
export function why(run: Run, syntaxOf: SyntaxOf, at: Place): Cause | null {
  const bound = run.varChange(at.frame, at.name, at.step);
  if (!bound || isDeleted(bound.value)) return null;
  const object = lastObjectChange(run, bound.value, at.step);
  const mutated = object.step > bound.step;
  const seen = mutated ? object.step : bound.step;
  const steps = history(run, at.frame, at.name, at.step);
  const cause: Cause = {
    subject: at, text: run.text(bound.value, at.step, TEXT_LIMIT), from: steps.at(-2)?.text ?? "",
    seen, made: -1, frame: at.frame, line: 0, source: "",
    how: "assigned", sure: true, copy: false, operands: [], inner: [], end: "", again: -1,
  };
  if (mutated) findMutation(run, cause, object.ref);
  else findAssignment(run, cause);
  if (!mutated && cause.made >= 0) {
    lookBack(run, syntaxOf, cause);
    lookElsewhere(run, syntaxOf, cause);
  }
  if (cause.made >= 0) explain(run, syntaxOf, cause, mutated);
  if (!mutated) cause.again = assignedAgain(run, syntaxOf, cause);
  return cause;
}

function lastObjectChange(run: Run, value: Value, step: number): { ref: number; step: number } {
  let last = { ref: 0, step: -1 };
  for (const ref of run.reachable([value], step, 100)) {
    const change = run.objectChange(ref, step);
    if (change && change.step > last.step) last = { ref, step: change.step };
  }
  return last;
}

function findAssignment(run: Run, cause: Cause): void {
  const { frame } = cause.subject;
  const before = run.previousInFrame(cause.seen);
  if (before >= 0) {
    if (run.gapBetween(before, cause.seen)) {
      cause.end = "It changed where events are missing.";
      return;
    }
    cause.made = before;
    return;
  }
  if (run.event(cause.seen).event !== "call") {
    cause.end = "It was so when the recording of this call begins.";
    return;
  }
  const caller = run.previousInThread(cause.seen);
  if (!frame.func.args.includes(cause.subject.name)) {
    cause.how = `there when ${functionName(frame.func)} began`;
    cause.end = "It belongs to the function around this one.";
    return;
  }
  cause.how = `argument of ${functionName(frame.func)}(…)`;
  if (caller < 0 || run.frameAt(caller) !== frame.parent) {
    cause.end = "The call came from code that is not traced.";
    return;
  }
  cause.made = caller;
  cause.frame = run.frameAt(caller);
}

/**
 * Between two looks at a frame any of its lines may have made the change: the last one that
 * assigns the name is the likeliest, and certain if it is the only one.
 */
function lookBack(run: Run, syntaxOf: SyntaxOf, cause: Cause): void {
  const { frame, name } = cause.subject;
  if (cause.frame !== frame) return;
  const look = run.lookedAt(frame, cause.made);
  if (look === cause.made) return;
  const between = frame.steps.filter((s) => s >= look && s <= cause.made && run.event(s).event === "line");
  const syntax = syntaxOf(frame.path);
  const writers = between.filter((s) => syntax?.statementAt(run.event(s).line)?.writes.includes(name));
  cause.made = writers.at(-1) ?? cause.made;
  cause.sure = writers.length === 1;
}

/**
 * A module's variable that its own line does not assign was assigned by a function, as a global:
 * by the last one of those that ran in between and do not have the name for themselves.
 */
function lookElsewhere(run: Run, syntaxOf: SyntaxOf, cause: Cause): void {
  const { frame, name } = cause.subject;
  const syntax = syntaxOf(frame.path);
  if (frame.func.kind !== "module" || !syntax || cause.frame !== frame) return;
  if (syntax.statementAt(run.event(cause.made).line)?.writes.includes(name)) return;
  for (let step = cause.seen - 1; step > cause.made; step--) {
    const other = run.frameAt(step);
    if (run.event(step).event !== "line" || other.path !== frame.path || other.vars.has(name)) continue;
    if (!syntax.statementAt(run.event(step).line)?.writes.includes(name)) continue;
    cause.made = step;
    cause.frame = other;
    return;
  }
}

function findMutation(run: Run, cause: Cause, ref: number): void {
  cause.how = `the object ◆${ref} changed`;
  const before = run.previousInThread(cause.seen);
  const own = run.previousInFrame(cause.seen);
  if (before < 0 || run.gapBetween(before, cause.seen)) {
    cause.end = "It changed where events are missing.";
    return;
  }
  cause.frame = run.frameAt(cause.seen);
  cause.made = own >= 0 ? own : before;
  if (own < 0) cause.frame = run.frameAt(before);
  cause.sure = cause.made === before && run.threads.length === 1;
}

/** Fills in the statement: its text, what it used, the calls it made, and where the chain ends. */
function explain(run: Run, syntaxOf: SyntaxOf, cause: Cause, mutated: boolean): void {
  const { frame, made, seen } = cause;
  cause.line = run.event(made).line;
  cause.source = run.sourceLine(frame.path, cause.line)?.trim() ?? "";
  const statement = syntaxOf(frame.path)?.statementAt(cause.line);
  if (!statement) {
    cause.end = cause.source === "" ? "The source is not known here." : "";
    return;
  }
  cause.inner = innerCalls(run, frame, made, seen);
  const argument = !mutated && run.event(seen).event === "call";
  const name = cause.subject.name;
  if (!argument && !mutated && !statement.writes.includes(name)) cause.sure = false;
  cause.copy = statement.copy && !mutated;
  const passed = argument ? passedTo(statement, cause.subject.frame) : undefined;
  const names = new Set(passed ?? [...statement.reads, ...(mutated ? [] : statement.touches)]);
  for (const operand of names) {
    const found = resolve(run, frame, operand, made);
    if (found && !isDefinition(found.value)) cause.operands.push(found);
  }
  cause.end = ending(statement, cause);
}

/** The names that a statement passes to the call that a frame is, if it is plain which call that is. */
function passedTo(statement: Statement, frame: Frame): string[] | undefined {
  const parts = frame.func.name.split(".");
  return statement.passed.get(parts.at(-1) ?? "") ?? statement.passed.get(parts.at(-2) ?? "");
}

/** The calls that a frame made between two of its steps. */
function innerCalls(run: Run, frame: Frame, from: number, to: number): Inner[] {
  const calls: Inner[] = [];
  for (const child of frame.children) {
    const first = child.steps[0] ?? -1;
    if (first <= from || first >= to || calls.length >= 5) continue;
    const last = run.lastIn(child, to);
    const event = run.event(last);
    const value = "value" in event ? ` → ${run.text(event.value, last, 60)}` : event.event === "unwind" ? " → exception" : "";
    calls.push({ frame: child, step: last, text: `${functionName(child.func)}(…)${value}` });
  }
  return calls;
}

/** Finds a name as Python would: in the frame, else in the module of its file. */
export function resolve(run: Run, frame: Frame, name: string, step: number): Operand | null {
  const lexical: Frame[] = [frame];
  for (let f = frame.parent; f; f = f.parent) if (f.path === frame.path) lexical.push(f);
  const module = run.moduleOf(frame, step);
  if (module) lexical.push(module);
  for (const candidate of lexical) {
    if (candidate !== frame && candidate.func.kind !== "module" && !encloses(candidate, frame)) continue;
    const change = run.varChange(candidate, name, step);
    if (change && !isDeleted(change.value)) {
      const stale = run.lookedAt(candidate, step) < run.lastIn(candidate, step);
      return { frame: candidate, name, step, value: change.value, text: run.text(change.value, step, 60), stale };
    }
  }
  return null;
}

function encloses(outer: Frame, inner: Frame): boolean {
  return inner.func.name.startsWith(outer.func.name + ".<locals>.");
}

/** Functions, classes and modules are rarely why a value is what it is. */
function isDefinition(value: Value): boolean {
  return Array.isArray(value) && ["FUNCTION", "CLASS", "module", "MODULE"].includes(String(value[0]));
}

function ending(statement: Statement, cause: Cause): string {
  if (cause.operands.length > 0 || cause.inner.length > 0) return "";
  if (/\binput\s*\(|\bstdin\b/.test(cause.source)) return "It was read from the program's input.";
  switch (statement.kind) {
    case "ImportStatement":
      return "It was imported.";
    case "FunctionDefinition":
    case "ClassDefinition":
      return "It was defined here.";
    case "ForStatement":
      return "It is the loop's next item.";
  }
  if (/\bexcept\b/.test(cause.source)) return "It is the exception that was caught.";
  return statement.literal ? "It stands in the source." : "Nothing that this line used was recorded.";
}

/** The last step at which the variable was assigned, to no effect, after its change. */
function assignedAgain(run: Run, syntaxOf: SyntaxOf, cause: Cause): number {
  const { frame, name, step } = cause.subject;
  const syntax = syntaxOf(frame.path);
  if (!syntax) return -1;
  for (let i = frame.steps.length - 2; i >= 0; i--) {
    const at = frame.steps[i] ?? -1;
    if (at < cause.seen) break;
    const done = (frame.steps[i + 1] ?? run.length) <= step;
    if (done && run.event(at).event === "line" && syntax.statementAt(run.event(at).line)?.writes.includes(name)) return at;
  }
  return -1;
}

/** The variables at a step that hold the object, as people would name them, at most limit. */
export function holders(run: Run, ref: number, step: number, limit: number): Place[] {
  const places: Place[] = [];
  for (const frame of run.stack(step)) {
    for (const [name, value] of run.variables(frame, step)) {
      if (refOf(value) === ref && places.length < limit) places.push({ frame, name, step });
    }
  }
  return places;
}
