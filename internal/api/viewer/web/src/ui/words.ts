// A moment of the run in words.
import { functionName, type Run } from "../model/run";
import { clean } from "../model/text";
import { exceptionLine } from "../model/words";

/** What happens at a step, in a sentence without a full stop. */
export function moment(run: Run, step: number): string {
  const e = run.event(step);
  const frame = run.frameAt(step);
  const name = functionName(frame.func);
  const value = "value" in e ? run.text(e.value, step, 80) : "";
  switch (e.event) {
    case "line":
      return `line ${e.line} is about to run`;
    case "call":
      return frame.func.kind === "module" ? `${clean(frame.path)} begins` : `enters ${name}(${args(run, step)})`;
    case "return":
      if (frame.func.kind === "module") return `${clean(frame.path)} is done`;
      return value ? `${name} returns ${value}` : `back from ${name}`;
    case "yield":
      return value && frame.func.kind !== "coroutine" ? `${name} yields ${value}` : `${name} waits`;
    case "resume":
      return `${name} goes on`;
    case "throw":
      return `${name} goes on with an exception`;
    case "exception":
      return `${run.passedOn(step) ? "passes on" : "raises"} ${clean(exceptionLine(e.exception ?? { type: "an exception", message: "" }))}`;
    case "unwind":
      return `the exception leaves ${name}`;
  }
}

function args(run: Run, step: number): string {
  const vars = run.event(step).vars;
  return run.frameAt(step).func.args.map((arg) => `${clean(arg)}=${vars?.has(arg) ? run.text(vars.get(arg), step, 40) : "?"}`).join(", ");
}

/** Where and when, for the slider and screen readers. */
export function placeWords(run: Run, step: number): string {
  const e = run.event(step);
  const frame = run.frameAt(step);
  return `step ${step + 1} of ${run.length}, ${clean(frame.path)} line ${e.line}, in ${functionName(frame.func)}`;
}

/** What a step changed, for the live region: "total 130 to 137". */
export function changeWords(run: Run, step: number): string {
  const frame = run.frameAt(step);
  const before = run.previousInFrame(step);
  const now = run.variables(frame, step);
  const was = before >= 0 ? run.variables(frame, before) : new Map();
  return run.changed(step).slice(0, 3).map((name) => {
    if (!now.has(name)) return `${clean(name)} deleted`;
    const inClass = run.classChanges(now.get(name), step, 40);
    if (inClass) return inClass.map((text) => clean(`${name}.${text}`)).join(", ");
    const text = run.text(now.get(name), step, 40);
    return was.has(name) ? `${clean(name)} ${run.text(was.get(name), before, 40)} to ${text}` : `${clean(name)} is ${text}`;
  }).filter((text) => text !== "").join(", ");
}
