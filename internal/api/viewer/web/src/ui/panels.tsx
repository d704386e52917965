// The panels that list things: the call stack, objects, exceptions and
// the result itself.
import { heldObjects, kindOf, slots } from "../model/aliases";
import { effectRows, effectsLeftOut, raisedRows, type RaisedRow } from "../model/effects";
import { functionName, type Run } from "../model/run";
import { clean, visible, visibleLine } from "../model/text";
import type { ProgramException, Raised } from "../model/types";
import { count, exceptionLine, facts, gapWords, millis, notes, number, size, threadWords } from "../model/words";
import { Node } from "./values";
import { RefBadge, StepLink, stepWords, useView } from "./parts";

/** The call stack, innermost first. */
export function Stack() {
  const view = useView();
  const step = view.step.value;
  const stack = view.stack.value;
  const shown = stack.length > 60 ? [...stack.slice(0, 40), null, ...stack.slice(-10)] : stack;
  return (
    <ol class="stack">
      {shown.map((frame, i) => {
        if (!frame) return <li class="quiet" key="more">{stack.length - 50} more calls</li>;
        const at = view.run.lastIn(frame, step);
        const line = at >= 0 ? view.run.event(at).line : frame.func.line;
        const current = frame === view.frame.value;
        return (
          <li key={frame.id}>
            <button type="button" class={`stack-row ${current ? "active" : ""}`} aria-current={current} onClick={() => {
              view.picked.value = i === 0 ? null : frame.id;
              view.file.value = "";
            }}>
              <span class="mono">{clean(functionName(frame.func))}</span>
              <span class="quiet">{clean(frame.path)}:{line}</span>
            </button>
          </li>
        );
      })}
      {view.run.threads.length > 1 && <li class="quiet pad">thread {view.run.threads.indexOf(view.run.event(step).thread) + 1} of {view.run.threads.length}</li>}
    </ol>
  );
}

/** The objects that the stack's variables lead to; those with several names come with all of them. */
export function Objects() {
  const view = useView();
  const step = view.step.value;
  const held = [...heldObjects(view.run, step, 60).values()].filter((h) => view.definitions.value || h.entry[0] !== "CLASS");
  if (held.length === 0) return <p class="quiet pad">No objects here; numbers and texts stand beside their names.</p>;
  const shared = new Set(held.filter((h) => h.names.length > 1).map((h) => h.ref));
  const order = [...held].sort((a, b) => Number(shared.has(b.ref)) - Number(shared.has(a.ref)));
  return (
    <ul class="objects">
      {order.map((h) => (
        <li key={h.ref} class={`object ${h.changed ? "changed" : ""}`} data-holds={h.ref}>
          <p class="object-head">
            <RefBadge ref={h.ref} shared={shared.has(h.ref)} /> <strong>{clean(kindOf(h.entry))}</strong>{" "}
            {h.changed && <span class="was">changed</span>}
          </p>
          <p class="holders">
            {shared.has(h.ref) ? `one object under ${number(h.names.length)} names: ` : ""}
            {h.names.map((name, i) => (
              <span key={name}>{i > 0 ? ", " : ""}<span class="mono">{clean(name)}</span></span>
            ))}
          </p>
          <ul class="slots">
            {slots(h.entry).map((slot, i) => (
              <li key={i}>
                <span class="slot">{clean(slot.label)}</span>
                <Node path={`◆${h.ref}/${slot.label}`} value={slot.value} step={step} shared={shared} depth={1} />
              </li>
            ))}
          </ul>
        </li>
      ))}
    </ul>
  );
}

/** The exception that ended the program, with what led to it, those that ended threads, and all that were raised. */
export function Exceptions() {
  const { run } = useView();
  const end = run.result.exception;
  const rows = raisedRows(run);
  const threads = threadWords(run.result);
  if (!end && rows.length === 0 && threads.length === 0) return <p class="quiet pad">No exception was raised.</p>;
  return (
    <div class="exceptions">
      {end && (
        <section aria-label="The exception that ended the program">
          <Chain exception={end} lead="" />
          {run.fatal >= 0 && <p><StepLink step={run.fatal}>Go to where it was raised ({stepWords(run.fatal)})</StepLink></p>}
        </section>
      )}
      {threads.length > 0 && (
        <section aria-label="Threads ended by an exception">
          <h3>Threads ended by an exception</h3>
          <ul class="raises">{threads.map((text, i) => <li key={i} class="fail mono">{clean(text)}</li>)}</ul>
        </section>
      )}
      {rows.length > 0 && (
        <section aria-label="Raised during the run">
          <h3>Raised during the run</h3>
          <ol class="raises">{rows.map((row, i) => <li key={i}><RaisedLine row={row} /></li>)}</ol>
        </section>
      )}
    </div>
  );
}

function RaisedLine({ row }: { row: RaisedRow }) {
  const { run } = useView();
  const { raised: e, step } = row;
  if (!e) return <span class="quiet">{count(row.leftOut, "more exception")}, not listed</span>;
  const place = e.file ? `${clean(e.file)}:${e.line}` : "";
  const words = <span class="mono fail">{clean(exceptionLine(e))}</span>;
  return (
    <>
      {step === null
        ? <>{words} <span class="quiet">{place}, where no events were recorded</span></>
        : <StepLink step={step}>{words} <span class="quiet">{stepWords(step)}, {place}</span></StepLink>}{" "}
      <span class="quiet">{fateWords(run, e, step)}</span>
    </>
  );
}

/** What became of an exception. */
function fateWords(run: Run, e: Raised, step: number | null): string {
  if (step !== null && step === run.fatal) return "ended the program";
  if (e.caught === false) {
    const thread = run.result.summary?.thread_exceptions?.some((t) => t.thread === e.thread && t.type === e.type && t.line === e.line);
    if (thread) return `ended thread ${e.thread}`;
    const end = run.result.exception;
    return end && end.type === e.type && end.line === e.line ? "ended the program" : "had nobody to go to";
  }
  const where = step === null ? "" : caughtWords(run, step);
  return where || (e.caught ? "caught" : "");
}

function caughtWords(run: Run, step: number): string {
  const thread = run.event(step).thread;
  for (let at = step + 1; at < run.length; at++) {
    const e = run.event(at);
    if (e.thread !== thread) continue;
    if (e.event === "unwind" || e.event === "exception") continue;
    return e.event === "line" ? `caught in ${clean(functionName(run.frameAt(at).func))}` : "";
  }
  return "";
}

function Chain({ exception, lead }: { exception: ProgramException; lead: string }) {
  const inner = exception.cause ?? exception.context;
  return (
    <div class="chain">
      <p class="fail mono wrap">{lead && <span class="lead">{lead} </span>}{visible(exceptionLine(exception))}</p>
      {exception.traceback.length > 0 ? <Traceback exception={exception} /> : <Spot exception={exception} />}
      {exception.group.map((e, i) => e && <Chain key={i} exception={e} lead={`${i + 1} of ${exception.group.length} in the group:`} />)}
      {inner && <Chain exception={inner} lead={exception.cause ? "caused by" : "while handling"} />}
    </div>
  );
}

/** Where the compiler stumbled: there is no traceback, but a line and mostly a column. */
function Spot({ exception: e }: { exception: ProgramException }) {
  const { run } = useView();
  const source = run.sourceLine(e.file, e.line);
  if (e.line < 1) return null;
  const known = source !== undefined && e.column !== null && e.column >= 1 && e.column <= source.length + 1;
  return (
    <>
      <p class="quiet">{clean(e.file)}:{e.line}{e.column !== null && `, column ${e.column}`}</p>
      {source !== undefined && (
        <pre class="quote">
          {visibleLine(source)}
          {known && <span class="caret" aria-hidden="true">{"\n" + " ".repeat(visibleLine(source.slice(0, (e.column ?? 1) - 1)).length)}^</span>}
        </pre>
      )}
    </>
  );
}

const SHOWN_FRAMES = 24;

function Traceback({ exception }: { exception: ProgramException }) {
  const view = useView();
  const frames = exception.traceback;
  const hidden = frames.length - SHOWN_FRAMES;
  const shown = hidden > 0 ? [...frames.slice(0, SHOWN_FRAMES / 2), null, ...frames.slice(-SHOWN_FRAMES / 2)] : frames;
  return (
    <ol class="traceback">
      {shown.map((f, i) => {
        if (!f) return <li key={i} class="quiet">{count(hidden, "more frame")}</li>;
        const source = (f.source || view.run.sourceLine(f.file, f.line) || "").trim();
        return (
          <li key={i} class={f.library ? "quiet" : ""}>
            {clean(f.file)}:{f.line} in {clean(f.function)}{f.library && " (library)"}
            {source && !f.library && <pre class="quote">{clean(source)}</pre>}
          </li>
        );
      })}
    </ol>
  );
}

/** Files, network and other programs that the program reached for. */
function Effects() {
  const { run } = useView();
  const rows = effectRows(run);
  if (rows.length === 0) return null;
  const more = effectsLeftOut(run);
  return (
    <section aria-label="Effects">
      <h3>What it reached for</h3>
      <div class="scroll-x">
        <table class="effects">
          <thead class="sr"><tr><th scope="col">What it did</th><th scope="col">Name</th><th scope="col">How it went</th><th scope="col">Where</th></tr></thead>
          <tbody>
            {rows.map((e, i) => (
              <tr key={i}>
                <th scope="row">{e.what}</th>
                <td class="mono">{clean(e.name)}</td>
                <td class={e.failure ? "fail" : "quiet"}>{[e.times, clean(e.failure)].filter((text) => text !== "").join(", ")}</td>
                <td>{e.step !== null ? <StepLink step={e.step}>{clean(e.place) || stepWords(e.step)}</StepLink> : <span class="quiet">{clean(e.place)}</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {more > 0 && <p class="quiet">and {count(more, "more time")}, not listed</p>}
    </section>
  );
}

/** The facts of the run: what it took, its limits, what is missing from the trace. */
export function ResultPanel() {
  const { run } = useView();
  const r = run.result;
  const remarks = [...notes(r), ...run.gaps.map((g) => `After ${stepWords(g.before - 1)}: ${gapWords(g, r)}.`)];
  const used: [string, string, string][] = [
    ["Time by the clock", millis(r.usage.wall_ms), millis(r.limits.wall_ms)],
    ["Processor time", millis(r.usage.cpu_ms), millis(r.limits.cpu_ms)],
    ["Memory", size(r.usage.max_memory_bytes), size(r.limits.memory_bytes)],
    ["Processes and threads", number(r.usage.max_processes), number(r.limits.processes)],
    ["Standard output", size(r.stdout_bytes), size(r.limits.output_bytes)],
    ["Standard error", size(r.stderr_bytes), size(r.limits.output_bytes)],
    ["Events in the trace", number(r.summary?.events_kept ?? run.length), number(r.limits.trace_events)],
  ];
  const s = r.summary;
  return (
    <div class="facts">
      {remarks.length > 0 && (
        <section aria-label="Notes">
          <h3>Notes</h3>
          <ul>{remarks.map((text, i) => <li key={i}>{visible(text)}</li>)}</ul>
        </section>
      )}
      <Effects />
      <section aria-label="Limits">
        <h3>What it took</h3>
        <table>
          <thead><tr><th scope="col"><span class="sr">What</span></th><th scope="col">used</th><th scope="col">limit</th></tr></thead>
          <tbody>{used.map(([what, took, limit]) => <tr key={what}><th scope="row">{what}</th><td>{took}</td><td>{limit}</td></tr>)}</tbody>
        </table>
      </section>
      {s && (
        <section aria-label="Counts">
          <h3>Counts of the whole run{s.counts_exact ? "" : " (at least)"}</h3>
          <p>
            {count(s.total_lines, "line")} run, {count(s.total_calls, "call")}, {count(s.events_total, "event")}
            {s.events_kept < s.events_total ? `, of which ${number(s.events_kept)} are recorded` : ""}.
          </p>
        </section>
      )}
      <section aria-label="Details">
        <h3>Details</h3>
        <p class="quiet wrap">
          {facts(r).map(clean).join(" · ")} · {r.runtime.engine}/{r.runtime.oci_runtime} · job <span class="mono">{r.id}</span>, attempt {r.attempt} · finished {r.finished_at}
        </p>
        <p class="quiet">The trace was taken inside the program's own interpreter, so a hostile program could have forged it. Status, output, times and limits were observed from outside.</p>
      </section>
    </div>
  );
}

