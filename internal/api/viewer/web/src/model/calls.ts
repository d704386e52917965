// The calls of a run as a tree and as a list of functions.
import { functionName, type Frame, type Run } from "./run";

/** The arguments of a call, as "a=1, b=2". */
export function callArguments(run: Run, frame: Frame, limit = 40): string {
  const step = frame.steps[0] ?? 0;
  const values = run.event(step).vars;
  return frame.func.args.map((arg) => (values?.has(arg) ? `${arg}=${run.text(values.get(arg), step, limit)}` : arg)).join(", ");
}

/** How a call ended. */
export interface Ending {
  kind: "returned" | "raised" | "open";
  step: number;
  text: string;
}

/** Looks at a call's last event. */
export function endOf(run: Run, frame: Frame): Ending {
  const step = frame.steps.at(-1) ?? 0;
  const e = run.event(step);
  if (e.event === "return") return { kind: "returned", step, text: "value" in e ? run.text(e.value, step, 60) : "" };
  if (e.event === "unwind") return { kind: "raised", step, text: "raised" };
  return { kind: "open", step, text: "did not end" };
}

/** A call's name with its arguments. */
export function callText(run: Run, frame: Frame): string {
  if (frame.func.kind === "module") return frame.path;
  if (frame.func.kind === "class") return `class ${functionName(frame.func)}`;
  return `${functionName(frame.func)}(${callArguments(run, frame)})`;
}

/** What is known of one function over all its recorded calls. */
export interface FunctionRow {
  name: string;
  place: string;
  calls: Frame[];
  none: number;
  raised: number;
}

/** The functions that were called, those called most first. */
export function functionRows(run: Run): FunctionRow[] {
  const rows = new Map<number, FunctionRow>();
  for (const frame of run.frames.values()) {
    if (frame.func.kind === "module" || frame.func.kind === "class") continue;
    let row = rows.get(frame.func.id);
    if (!row) {
      row = { name: functionName(frame.func), place: `${frame.path}:${frame.func.line}`, calls: [], none: 0, raised: 0 };
      rows.set(frame.func.id, row);
    }
    row.calls.push(frame);
    const e = run.event(frame.steps.at(-1) ?? 0);
    if (e.event === "return" && "value" in e && e.value === null) row.none++;
    if (e.event === "unwind") row.raised++;
  }
  return [...rows.values()].sort((a, b) => b.calls.length - a.calls.length);
}
