// Everything that is tested in a browser without the page. The Go test loads
// this, and compares dump with what the text view's rules give.
import { readResult } from "../model/parse";
import { Run } from "../model/run";
import { verdict, facts, notes } from "../model/words";
import { runAll } from "./harness";
import "./model.test";
import "./why.test";

/** What every event changed, and how the run is spoken of, as texts. */
function dump(text: string): { steps: string[]; words: string[] } {
  const run = new Run(readResult(text), null);
  const steps = run.events.map((e, step) => {
    const values = run.variables(run.frameAt(step), step);
    const changes = run.changed(step).map((name) => (values.has(name) ? `${name}=${run.text(values.get(name), step, 60)}` : `${name} deleted`));
    return [`${e.seq} ${e.event}`, ...changes, "value" in e ? `value ${run.text(e.value, step, 80)}` : ""].filter((part) => part !== "").join(" | ");
  });
  return { steps, words: [verdict(run.result), ...facts(run.result), ...notes(run.result)] };
}

Object.assign(globalThis, { unit: { runAll, dump } });
