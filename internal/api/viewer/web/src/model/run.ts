// The run as something that can be asked about any of its moments. Everything
// is indexed once; no moment is reached by replaying the ones before it.
//
// Step n (from 0) is the moment of event n: its changes have happened, and if
// it is a line event its line is about to run.
import { clean, eachRef, isDeleted, reaches, refOf, valueText, type Objects } from "./text";
import type { Gap, Job, Result, TraceEvent, TraceFunction, Value } from "./types";

/** A value that a variable or object took at a step. */
export interface Change {
  step: number;
  value: Value;
}

/** One call of a function, from its first event to its last. */
export interface Frame {
  id: number;
  func: TraceFunction;
  path: string;
  thread: number;
  /** The frame that was running when this one began, if the trace has it. */
  parent: Frame | null;
  children: Frame[];
  /** Its events, as steps. */
  steps: number[];
  /** Those of its steps at which its variables were looked at. */
  looks: number[];
  /** What each of its variables was, in the order of their first appearance. */
  vars: Map<string, Change[]>;
}

/** One entry of the call stack; entries are shared by the steps that have them. */
export interface StackEntry {
  frame: Frame;
  below: StackEntry | null;
}

/** A place where events are missing, before the step. */
export interface GapMark extends Gap {
  /** The step that follows the gap; the number of steps when nothing does. */
  before: number;
}

/** The thread that runs the entrypoint. */
const MAIN_THREAD = 1;

const NO_FUNCTION: TraceFunction = { id: 0, name: "?", file: 0, line: 0, kind: "function", args: [] };

export class Run {
  readonly events: TraceEvent[];
  readonly frames = new Map<number, Frame>();
  readonly roots: Frame[] = [];
  readonly gaps: GapMark[];
  /** Source lines by path; empty when the input is not known. */
  readonly sources = new Map<string, string[]>();
  readonly threads: number[] = [];
  /** The step at which the exception that ended the program was raised, or -1. */
  readonly fatal: number;
  readonly maxDepth: number;

  private raised: number[] | null = null;
  private readonly modules: Frame[] = [];
  private readonly heap = new Map<number, Change[]>();
  private readonly stacks: (StackEntry | null)[] = [];
  private readonly outs: number[] = [];
  private readonly before: number[] = [];
  private readonly positions: number[] = [];

  constructor(
    readonly result: Result,
    readonly input: Job | null,
  ) {
    const trace = result.trace;
    this.events = trace?.events ?? [];
    for (const [path, text] of Object.entries(input?.files ?? {})) this.sources.set(path, splitLines(text));
    // Where recording only went on in another way, nothing is missing.
    const gaps = (trace?.gaps ?? []).filter((gap) => gap.skipped !== 0);
    this.gaps = gaps.map((gap) => ({ ...gap, before: this.stepAfter(gap.after_seq) }));
    this.index();
    this.maxDepth = this.events.reduce((most, e) => Math.max(most, e.depth), 1);
    this.fatal = this.findFatal();
  }

  get length(): number {
    return this.events.length;
  }

  event(step: number): TraceEvent {
    const event = this.events[step];
    if (!event) throw new RangeError(`no step ${step}`);
    return event;
  }

  /** The first step whose event has a number above seq. */
  private stepAfter(seq: number): number {
    let low = 0;
    let high = this.events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.events[middle]?.seq ?? 0) <= seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The step of the event with the number seq, or the nearest one before it. */
  stepOf(seq: number): number {
    return Math.max(0, this.stepAfter(seq) - 1);
  }

  /** The step of the event with exactly the number seq, or null when it is not recorded. */
  stepWith(seq: number): number | null {
    const step = this.stepAfter(seq) - 1;
    return this.events[step]?.seq === seq ? step : null;
  }

  private index(): void {
    const functions = new Map((this.result.trace?.functions ?? []).map((f) => [f.id, f]));
    const paths = new Map((this.result.trace?.files ?? []).map((f) => [f.id, f.path]));
    const tops = new Map<number, Top | null>();
    const last = new Map<number, number>();
    const gapAt = new Set(this.gaps.map((g) => g.before));
    let out = -1;
    this.events.forEach((event, step) => {
      if (gapAt.has(step)) tops.clear();
      if (!last.has(event.thread)) this.threads.push(event.thread);
      let frame = this.frames.get(event.frame);
      const before = tops.get(event.thread) ?? null;
      let under = before;
      while (under && under.depth >= event.depth) under = under.next;
      const below = under?.entry ?? (before ? null : knownStack(frame?.parent ?? null));
      if (!frame) {
        const func = functions.get(event.func) ?? NO_FUNCTION;
        frame = {
          id: event.frame, func, path: paths.get(func.file) ?? "?", thread: event.thread,
          parent: below?.frame ?? null, children: [], steps: [], looks: [], vars: new Map(),
        };
        this.frames.set(frame.id, frame);
        (frame.parent?.children ?? this.roots).push(frame);
        if (func.kind === "module") this.modules.push(frame);
      }
      const same = before?.depth === event.depth && before.entry.frame === frame;
      const top = same ? before : { entry: { frame, below }, depth: event.depth, next: under };
      tops.set(event.thread, top);
      this.stacks.push(top.entry);
      this.before.push(last.get(event.thread) ?? -1);
      last.set(event.thread, step);
      this.positions.push(frame.steps.length);
      frame.steps.push(step);
      if (!event.unseen) frame.looks.push(step);
      for (const [name, value] of event.vars ?? []) push(frame.vars, name, { step, value });
      for (const [ref, value] of event.heap ?? []) push(this.heap, ref, { step, value });
      if (event.out) out = step;
      this.outs.push(out);
    });
  }

  /** The frame that an event happened in. */
  frameAt(step: number): Frame {
    const frame = this.frames.get(this.event(step).frame);
    if (!frame) throw new RangeError(`no frame at step ${step}`);
    return frame;
  }

  /** The call stack at a step, innermost first. */
  stack(step: number): Frame[] {
    const frames: Frame[] = [];
    for (let entry = this.stacks[step] ?? null; entry; entry = entry.below) frames.push(entry.frame);
    return frames;
  }

  /** The module that a frame's code is of, if it had begun; also when it has ended since. */
  moduleOf(frame: Frame, step: number): Frame | null {
    for (const root of this.modules) if (root.path === frame.path && (root.steps[0] ?? 0) <= step) return root;
    return null;
  }

  /** The last event of the frame at or before a step; -1 if there is none. */
  lastIn(frame: Frame, step: number): number {
    return frame.steps[lastAtMost(frame.steps, step, (s) => s)] ?? -1;
  }

  /** The event of the same frame before this one; -1 if it is the frame's first. */
  previousInFrame(step: number): number {
    return this.frameAt(step).steps[(this.positions[step] ?? 0) - 1] ?? -1;
  }

  /** The event of the same frame after this one; -1 if it is the frame's last. */
  nextInFrame(step: number): number {
    return this.frameAt(step).steps[(this.positions[step] ?? 0) + 1] ?? -1;
  }

  /** The event of the same thread before this one; -1 if it is the thread's first. */
  previousInThread(step: number): number {
    return this.before[step] ?? -1;
  }

  /** The objects as they were shown at a step. */
  objects(step: number): Objects {
    return { get: (ref) => this.objectChange(ref, step)?.value };
  }

  /** The first step after the last gap before a step. What was known before a gap may no longer hold after it. */
  private since(step: number): number {
    return this.gaps.reduce((since, gap) => (gap.before <= step ? Math.max(since, gap.before) : since), 0);
  }

  /** The last step at which the variables of a frame were looked at, -1 when that was before a gap. */
  lookedAt(frame: Frame, step: number): number {
    const look = frame.looks[lastAtMost(frame.looks, step, (s) => s)] ?? -1;
    return look >= this.since(step) || this.ended(frame, step) ? look : -1;
  }

  /** Tells whether a frame had ended before a step; its variables stay what they were. */
  private ended(frame: Frame, step: number): boolean {
    const last = frame.steps.at(-1) ?? 0;
    return last < step && ["return", "unwind"].includes(this.event(last).event);
  }

  /** The change that made the object ref what it is at a step. */
  objectChange(ref: number, step: number): Change | undefined {
    return this.changeAt(this.heap.get(ref), step, this.since(step));
  }

  /** The change that made a variable what it is at a step. */
  varChange(frame: Frame, name: string, step: number): Change | undefined {
    return this.changeAt(frame.vars.get(name), step, this.ended(frame, step) ? 0 : this.since(step));
  }

  private changeAt(changes: Change[] | undefined, step: number, since: number): Change | undefined {
    const change = changes?.[lastAtMost(changes, step, (c) => c.step)];
    return change && change.step >= since ? change : undefined;
  }

  /** The variables of a frame at a step. */
  variables(frame: Frame, step: number): Map<string, Value> {
    const values = new Map<string, Value>();
    for (const name of frame.vars.keys()) {
      const change = this.varChange(frame, name, step);
      if (change && !isDeleted(change.value)) values.set(name, change.value);
    }
    return values;
  }

  /**
   * The names that an event changed in its frame, as the text view has them:
   * those assigned, then those that are, or else hold, an object that changed.
   */
  changed(step: number): string[] {
    const event = this.event(step);
    const names = [...(event.vars?.keys() ?? [])];
    if (!event.heap) return names;
    const frame = this.frameAt(step);
    const values = this.variables(frame, step);
    const objects = this.objects(step);
    for (const ref of event.heap.keys()) {
      const direct = [...values].filter(([, v]) => refOf(v) === ref);
      const holders = direct.length > 0 ? direct : [...values].filter(([, v]) => reaches(v, ref, objects));
      for (const [name] of holders) if (!names.includes(name)) names.push(name);
    }
    return names;
  }

  /**
   * What is other at a step in a class than it was at the frame's step before, as "attribute = value"; null
   * when the value is no class. What a class begins with, its own lines have told.
   */
  classChanges(value: Value | undefined, step: number, limit: number): string[] | null {
    const ref = refOf(value);
    const entry = this.objects(step).get(ref);
    if (ref === 0 || !isClass(entry)) return null;
    const before = this.previousInFrame(step);
    const past = before >= 0 ? this.objects(before).get(ref) : undefined;
    if (!isClass(past)) return [];
    const was = new Map(attributes(past).map(([name, v]) => [name, this.text(v, before, limit)]));
    return attributes(entry).map(([name, v]) => [name, this.text(v, step, limit)] as const)
      .filter(([name, text]) => was.get(name) !== text).map(([name, text]) => `${name} = ${text}`);
  }

  /** Writes a value as it was at a step. */
  text(value: Value | undefined, step: number, limit = 60): string {
    return valueText(value, this.objects(step), limit);
  }

  /** How many bytes of stdout and stderr had been written at a step, as far as that is known. */
  output(step: number): [number, number] {
    const at = this.outs[step] ?? -1;
    return (at >= 0 ? this.event(at).out : undefined) ?? [0, 0];
  }

  /** Tells whether more may have been written at a step: since the last gap no event has told. */
  outputUnsure(step: number): boolean {
    const since = this.since(step);
    return since > 0 && (this.outs[step] ?? -1) < since;
  }

  /** Tells whether events are missing after the last one. */
  get cutShort(): boolean {
    return this.gaps.some((gap) => gap.before >= this.length);
  }

  /** The gap between two steps of which the first is smaller, if there is one. */
  gapBetween(from: number, to: number): GapMark | undefined {
    return this.gaps.find((g) => g.before > from && g.before <= to);
  }

  /** The source line, or undefined when it is not known. */
  sourceLine(path: string, line: number): string | undefined {
    return this.sources.get(path)?.[line - 1];
  }

  /**
   * Tells whether an exception event is not a raise but the arrival of an
   * exception in the caller of the frame that it has just left.
   */
  passedOn(step: number): boolean {
    const before = this.previousInThread(step);
    return before >= 0 && this.event(before).event === "unwind";
  }

  /** The steps at which exceptions were raised, without those that only end an iteration. */
  raises(): number[] {
    if (this.raised) return this.raised;
    const steps: number[] = [];
    this.events.forEach((e, step) => {
      if (e.event !== "exception" || this.passedOn(step)) return;
      if (step !== this.fatal && endsIteration(e)) return;
      steps.push(step);
    });
    this.raised = steps;
    return steps;
  }

  /**
   * Finds where the exception that ended the program was raised: the main thread's last raise
   * that looks like it. Other threads, what atexit calls and hooks may raise others after it.
   */
  private findFatal(): number {
    if (this.result.status !== "exception") return -1;
    const end = this.result.exception;
    // With events missing, the last raise that was recorded need not be the last one there was.
    const first = this.since(this.length);
    let last = -1;
    for (let step = this.length - 1; step >= first; step--) {
      const e = this.event(step);
      if (e.event !== "exception" || e.thread !== MAIN_THREAD || this.passedOn(step)) continue;
      if (end && lastPart(e.exception?.type ?? "") === lastPart(end.type) && e.line === end.line) return step;
      last = Math.max(last, step);
    }
    return first > 0 ? -1 : last;
  }

  /** The step worth looking at first: the failure, be it a thread's, else the last one before a stop, else the first. */
  opening(): number {
    if (this.fatal >= 0) return this.fatal;
    const death = this.result.summary?.thread_exceptions?.[0];
    const at = death && this.result.status === "ok"
      ? this.events.findLastIndex((e) => e.event === "exception" && e.thread === death.thread && e.line === death.line && e.exception?.type === death.type) : -1;
    if (at >= 0) return at;
    const ended = this.result.status === "ok" || this.result.status === "exit_nonzero";
    return ended ? 0 : Math.max(0, this.length - 1);
  }

  /** The refs that can be reached from values at a step, nearest first, at most limit. */
  reachable(values: Iterable<Value>, step: number, limit: number): number[] {
    const refs = new Set<number>();
    const waiting: (Value | undefined)[] = [...values];
    for (let i = 0; i < waiting.length && refs.size < limit; i++) {
      eachRef(waiting[i], (ref) => {
        if (refs.has(ref) || refs.size >= limit) return;
        refs.add(ref);
        waiting.push(this.objectChange(ref, step)?.value);
      });
    }
    return [...refs];
  }
}

/** The stack of one thread while the events are read: entries with their depth. */
interface Top {
  entry: StackEntry;
  depth: number;
  next: Top | null;
}

/** After a gap the stack is what is known of it: the frames that began under one another. */
function knownStack(frame: Frame | null): StackEntry | null {
  return frame ? { frame, below: knownStack(frame.parent) } : null;
}

function isClass(entry: Value | undefined): entry is Value[] {
  return Array.isArray(entry) && entry[0] === "CLASS";
}

/** The attributes that the content of a class shows: what follows its tag, name and bases. */
function attributes(entry: Value[]): [string, Value][] {
  return entry.slice(3).filter((pair): pair is [string, Value] => Array.isArray(pair) && pair.length === 2 && typeof pair[0] === "string" && pair[0] !== "ELIDED");
}

function push<K>(map: Map<K, Change[]>, key: K, change: Change): void {
  const list = map.get(key);
  if (list) list.push(change);
  else map.set(key, [change]);
}

/** The index of the last item whose key is at most limit, or -1. */
function lastAtMost<T>(items: readonly T[], limit: number, key: (item: T) => number): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(items[middle] as T) <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** A qualified name without what it is qualified by. */
function lastPart(name: string): string {
  return name.slice(name.lastIndexOf(".") + 1);
}

/** Tells whether an exception is the interpreter's way to end a loop or a coroutine. */
export function endsIteration(event: TraceEvent): boolean {
  return ["StopIteration", "StopAsyncIteration", "GeneratorExit"].includes(event.exception?.type ?? "");
}

/** Splits text at line ends, as CPython counts lines: a final line end starts no further line. */
export function splitLines(text: string): string[] {
  return text.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n").replace(/\n$/, "").split("\n");
}

/** A function's name as people say it. It may be any text: a program can name its functions as it likes. */
export function functionName(f: TraceFunction): string {
  return clean(f.name.replaceAll(".<locals>.", "."));
}
