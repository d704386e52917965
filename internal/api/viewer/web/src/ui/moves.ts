// The ways to move through a run.
import { history } from "../model/history";
import { passAt, passesOf, type Passes } from "../model/loops";
import type { ViewState } from "./state";

/** To the next or previous event of this call or one further out: over what it calls. */
export function over(view: ViewState, direction: 1 | -1): void {
  const { run } = view;
  const here = run.event(view.step.value);
  for (let step = view.step.value + direction; step >= 0 && step < run.length; step += direction) {
    const e = run.event(step);
    if (e.thread === here.thread && e.depth <= here.depth) return view.go(step);
  }
}

/** To the next event of the caller. */
export function out(view: ViewState): void {
  const { run } = view;
  const here = run.event(view.step.value);
  for (let step = view.step.value + 1; step < run.length; step++) {
    const e = run.event(step);
    if (e.thread === here.thread && e.depth < here.depth) return view.go(step);
  }
}

/** To the next or previous change of the selected name, or of anything when none is selected. */
export function change(view: ViewState, direction: 1 | -1): void {
  const { run } = view;
  const frame = view.frame.value;
  if (view.name.value && frame) {
    const steps = history(run, frame, view.name.value).map((m) => m.step);
    const next = direction > 0 ? steps.find((s) => s > view.step.value) : steps.findLast((s) => s < view.step.value);
    if (next !== undefined) view.go(next);
    return;
  }
  for (let step = view.step.value + direction; step >= 0 && step < run.length; step += direction) {
    const e = run.event(step);
    if (e.event !== "call" && (e.vars || e.heap)) return view.go(step);
  }
}

/** To the exception that ended the program, else to the next one raised, round and round. */
export function exception(view: ViewState): void {
  const { run } = view;
  const raises = run.raises();
  const here = view.step.value;
  const next = run.fatal >= 0 && here !== run.fatal ? run.fatal : (raises.find((s) => s > here) ?? raises[0]);
  if (next !== undefined) view.jump(next);
}

/** To the next or previous step at which something had been written. */
export function output(view: ViewState, direction: 1 | -1): void {
  for (let step = view.step.value + direction; step >= 0 && step < view.run.length; step += direction) {
    if (view.run.event(step).out) return view.go(step);
  }
}

/** To the next or previous pass of the loop around the current line. */
export function pass(view: ViewState, direction: 1 | -1): void {
  const table = currentLoop(view);
  if (!table) return;
  const at = passAt(table.passes, view.step.value);
  const target = table.passes[at < 0 ? (direction > 0 ? 0 : table.passes.length - 1) : at + direction];
  if (target) view.go(target.from);
}

/** To the next (or previous) time a line of a file runs, in any call; round and round. */
export function execution(view: ViewState, path: string, line: number, direction: 1 | -1): void {
  const { run } = view;
  for (let n = 1; n <= run.length; n++) {
    const step = (view.step.value + direction * n + run.length * 2) % run.length;
    const e = run.event(step);
    if (e.event === "line" && e.line === line && run.frameAt(step).path === path) return view.jump(step);
  }
}

/** The innermost loop around the current line that has passes in the shown frame. */
export function currentLoop(view: ViewState): Passes | null {
  const frame = view.frame.value;
  if (!frame) return null;
  const syntax = view.syntaxOf(frame.path);
  const at = view.run.lastIn(frame, view.step.value);
  if (!syntax || at < 0) return null;
  const loops = syntax.loopsAround(view.run.event(at).line);
  for (const loop of loops.length > 0 ? loops : nearest(view)) {
    const passes = passesOf(view.run, syntax, loop, frame, view.step.value);
    if (passes) return passes;
  }
  return null;
}

/** With no loop around the line, the loop of this call that ran last is the one to show. */
function nearest(view: ViewState) {
  const frame = view.frame.value;
  const syntax = frame && view.syntaxOf(frame.path);
  if (!frame || !syntax) return [];
  const { run } = view;
  for (let i = frame.steps.length - 1; i >= 0; i--) {
    const step = frame.steps[i] ?? 0;
    if (step > view.step.value) continue;
    const loops = syntax.loopsAround(run.event(step).line);
    if (loops.length > 0) return loops;
  }
  return [];
}
