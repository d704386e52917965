// One search over everything that was recorded: names, values, functions, exceptions, lines.
import { useState } from "preact/hooks";
import { callText } from "../model/calls";
import type { Run } from "../model/run";
import { clean, visibleLine } from "../model/text";
import { exceptionLine, number } from "../model/words";
import { Dialog } from "./keys";
import { stepWords } from "./parts";
import type { ViewState } from "./state";

interface Found {
  step: number;
  what: string;
  text: string;
}

const LIMIT = 200;

/** Looks through the run, from its beginning; stops at LIMIT finds. */
function find(run: Run, wanted: string): Found[] {
  const needle = wanted.toLowerCase();
  const found: Found[] = [];
  const add = (step: number, what: string, text: string) => {
    if (text.toLowerCase().includes(needle)) found.push({ step, what, text });
  };
  for (let step = 0; step < run.length && found.length < LIMIT; step++) {
    const e = run.event(step);
    if (e.event === "call") add(step, "call", clean(callText(run, run.frameAt(step))));
    else for (const [name, value] of e.vars ?? []) add(step, "value", `${clean(name)} = ${run.text(value, step, 120)}`);
    if (e.event === "exception" && e.exception) add(step, "exception", clean(exceptionLine(e.exception)));
    if (e.event === "return" && "value" in e && e.value !== null) add(step, "returned", run.text(e.value, step, 120));
  }
  for (const [path, lines] of run.sources) {
    lines.forEach((text, i) => {
      if (found.length >= LIMIT * 2 || !text.toLowerCase().includes(needle)) return;
      const step = run.events.findIndex((e, s) => e.event === "line" && e.line === i + 1 && run.frameAt(s).path === path);
      found.push({ step, what: `${clean(path)}:${i + 1}`, text: visibleLine(text.trim()) });
    });
  }
  return found;
}

export function Search({ view, close }: { view: ViewState; close: () => void }) {
  const [wanted, setWanted] = useState("");
  const found = wanted.trim().length > 0 ? find(view.run, wanted.trim()) : [];
  return (
    <Dialog title="Search the run" close={close}>
      <input type="search" class="search-field" aria-label="Search for" placeholder="a name, a value, a function, an exception" autofocus value={wanted} onInput={(e) => setWanted(e.currentTarget.value)} />
      <p class="quiet" role="status">{wanted.trim() ? (found.length === 0 ? "Nothing found." : `${number(found.length)}${found.length >= LIMIT ? " or more" : ""} found`) : "Values, calls, exceptions and lines of the source."}</p>
      <ol class="raises found">
        {found.map((f, i) => (
          <li key={i}>
            <button type="button" class="link" disabled={f.step < 0} onClick={() => { view.jump(f.step); close(); }}>
              <span class="quiet">{f.what}</span> <span class="mono">{f.text}</span> <span class="quiet">{f.step >= 0 ? stepWords(f.step) : "did not run"}</span>
            </button>
          </li>
        ))}
      </ol>
    </Dialog>
  );
}
