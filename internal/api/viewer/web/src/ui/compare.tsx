// This run beside another: where they part.
import { useState } from "preact/hooks";
import { firstDifference } from "../model/diff";
import { readChosen } from "../model/parse";
import { functionName, Run } from "../model/run";
import { clean } from "../model/text";
import { verdict } from "../model/words";
import { fetchTrace } from "./api";
import { stepWords, StepLink, useView } from "./parts";

export function Compare({ online }: { online: boolean }) {
  const view = useView();
  const [problem, setProblem] = useState("");
  const [id, setId] = useState("");
  const other = view.other.value;
  const take = async (load: () => Promise<Run>, title: string) => {
    setProblem("");
    try {
      view.other.value = { run: await load(), title };
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  const choose = (file: File | undefined) => {
    if (!file) return;
    void take(async () => {
      const bundle = await readChosen(await file.text());
      return new Run(bundle.result, bundle.input);
    }, file.name);
  };
  return (
    <div class="compare">
      {other && <Outcome other={other} />}
      <p class="quiet">Find the first step at which this run and another one differ: a corrected version, or the same program with other input.</p>
      <div class="compare-with">
        {online && (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              void take(async () => {
                const found = await fetchTrace(id.trim());
                if (!found.result) throw new Error("That run has no result yet.");
                return new Run(found.result, found.input);
              }, id.trim());
            }}
          >
            <label>
              Run with the id <input type="text" value={id} onInput={(e) => setId(e.currentTarget.value)} size={24} required />
            </label>
            <button type="submit" class="button">Compare</button>
          </form>
        )}
        <label class="button file-button">
          Choose a saved run…
          <input type="file" class="sr" accept=".json,.html" onChange={(e) => choose(e.currentTarget.files?.[0])} />
        </label>
      </div>
      {problem && <p class="fail" role="alert">{problem}</p>}
    </div>
  );
}

function Outcome({ other }: { other: { run: Run; title: string } }) {
  const view = useView();
  const found = firstDifference(view.run, other.run);
  const side = (run: Run, step: number, mine: boolean) => {
    if (run.length === 0) return <p class="quiet">No steps.</p>;
    const frame = run.frameAt(step);
    const line = run.event(step).line;
    const source = run.sourceLine(frame.path, line)?.trim();
    return (
      <>
        <p>
          {mine ? <StepLink step={step}>{stepWords(step)}</StepLink> : stepWords(step)}{" "}
          <span class="quiet">{clean(frame.path)}:{line} in {clean(functionName(frame.func))}</span>
        </p>
        {source && <pre class="quote">{clean(source)}</pre>}
        <dl>
          {found.values.map((v) => (
            <div key={v.name}><dt class="mono">{clean(v.name)}</dt><dd class="mono">{mine ? v.a : v.b}</dd></div>
          ))}
        </dl>
        <p class="quiet wrap">{clean(verdict(run.result))}</p>
      </>
    );
  };
  return (
    <section aria-label="First difference">
      <p class="sentence wrap" role="status">{clean(found.sentence)}</p>
      {found.kind !== "empty" && (
        <div class="sides">
          <div><h3>This run</h3>{side(view.run, found.a, true)}</div>
          <div><h3>{clean(other.title)}</h3>{side(other.run, found.b, false)}</div>
        </div>
      )}
    </section>
  );
}
