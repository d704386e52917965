// Everything a variable was during a call.
import { isDeleted, valueText } from "./text";
import type { Frame, Run } from "./run";

/** A value that a variable had from a step on. */
export interface Moment {
  step: number;
  text: string;
  /** The value if it is a number, for a picture. */
  number: number | null;
}

const TEXT_LIMIT = 200;

/**
 * The values of a variable, each with the step at which it is first seen, up
 * to a step: by assignment, and by changes of the objects it shows.
 */
export function history(run: Run, frame: Frame, name: string, upTo = Infinity): Moment[] {
  const changes = frame.vars.get(name) ?? [];
  const first = changes[0]?.step ?? Infinity;
  const last = Math.min(upTo, frame.steps.at(-1) ?? -1);
  const moments: Moment[] = [];
  let next = 0;
  let shown = new Set<number>();
  for (let step = first; step <= last; step++) {
    const event = run.event(step);
    let touched = false;
    while ((changes[next]?.step ?? Infinity) <= step) {
      next++;
      touched = true;
    }
    const value = changes[next - 1]?.value;
    if (!touched && event.heap) for (const ref of event.heap.keys()) touched ||= shown.has(ref);
    if (!touched) continue;
    shown = new Set(run.reachable([value ?? null], step, 100));
    const text = isDeleted(value) ? "(deleted)" : valueText(value, run.objects(step), TEXT_LIMIT);
    if (moments.at(-1)?.text === text) continue;
    const number = typeof value === "number" ? value : Array.isArray(value) && value[0] === "FLOAT" ? Number(value[1]) : null;
    moments.push({ step, text, number });
  }
  return moments;
}
