// The variables of the shown call: what each one is, what it was before, and
// the way to why it is so.
import { heldObjects, kindOf, slots } from "../model/aliases";
import { history } from "../model/history";
import { functionName, type Frame } from "../model/run";
import { clean, refOf } from "../model/text";
import type { Value } from "../model/types";
import { count } from "../model/words";
import { Icon, IconButton, RefBadge, StepLink, ValueText, stepWords, useView } from "./parts";
import { moment } from "./words";
import { Why } from "./why";

export function Values() {
  const view = useView();
  const { run } = view;
  const frame = view.frame.value;
  if (!frame) return <p class="quiet pad">Nothing was recorded.</p>;
  const step = view.step.value;
  const globals = frame.func.kind === "module" ? null : run.moduleOf(frame, step);
  const held = heldObjects(run, step, 200);
  const shared = new Set([...held.values()].filter((h) => h.names.length > 1).map((h) => h.ref));
  const list = (f: Frame, only?: string[]) => <Rows frame={f} step={step} shared={shared} only={only} />;
  const pins = view.pins.value;
  return (
    <div class="values">
      <p class="moment">
        <strong>{stepWords(step)}</strong> {moment(run, step)}
      </p>
      {view.chain.value.length > 0 && <Why />}
      {pins.length > 0 && (
        <>
          <h3>Pinned</h3>
          {list(frame, pins)}
        </>
      )}
      <h3>
        {frame.func.kind === "module" ? "Variables" : `In ${functionName(frame.func)}`}
      </h3>
      {list(frame)}
      {globals && (
        <>
          <h3>In the module{run.sources.size > 1 && ` (${clean(globals.path)})`}</h3>
          {list(globals)}
        </>
      )}
      {view.name.value && <History />}
    </div>
  );
}

/** The two switches above the variables. */
export function ValueFilters() {
  const view = useView();
  return (
    <div class="filters">
      <button type="button" class="chip" aria-pressed={view.onlyChanged.value} onClick={() => (view.onlyChanged.value = !view.onlyChanged.value)}>
        Changed only
      </button>
      <button type="button" class="chip" aria-pressed={view.definitions.value} onClick={() => (view.definitions.value = !view.definitions.value)}>
        Functions too
      </button>
    </div>
  );
}

function isDefinition(value: Value, entry: Value | undefined): boolean {
  const of = (v: Value | undefined) => Array.isArray(v) && ["FUNCTION", "CLASS", "module", "MODULE"].includes(String(v[0]));
  return of(value) || of(entry);
}

function Rows({ frame, step, shared, only }: { frame: Frame; step: number; shared: Set<number>; only?: string[] | undefined }) {
  const view = useView();
  const { run } = view;
  const here = run.frameAt(step) === frame;
  const before = here ? run.previousInFrame(step) : -1;
  // After a gap everything is told anew, changed or not.
  const changed = new Set(here && !(before >= 0 && run.gapBetween(before, step)) ? run.changed(step) : []);
  const look = run.lookedAt(frame, step);
  const seen = before >= 0 ? run.lookedAt(frame, before) : -1;
  const when = seen >= 0 && seen < before ? ` at ${stepWords(seen)}` : "";
  const was = before >= 0 ? run.variables(frame, before) : new Map<string, Value>();
  const objects = run.objects(step);
  const rows = [...run.variables(frame, step)].filter(([name, value]) => {
    if (only) return only.includes(name);
    if (view.onlyChanged.value && !changed.has(name)) return false;
    return view.definitions.value || !isDefinition(value, objects.get(refOf(value)));
  });
  const gone = only || !changed.size ? [] : [...changed].filter((name) => was.has(name) && !run.variables(frame, step).has(name));
  if (look < 0) return <p class="quiet">Not looked at since the gap: what they were before may no longer hold.</p>;
  if (rows.length === 0 && gone.length === 0) return <p class="quiet">{view.onlyChanged.value ? "Nothing changed here." : "None yet."}</p>;
  return (
    <>
    {look < run.lastIn(frame, step) && <p class="quiet">As of {stepWords(look)}; not looked at since.</p>}
    <table class="vars">
      <thead class="sr">
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Value</th>
          <th scope="col">Actions</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, value]) => {
          const old = changed.has(name) && was.has(name) ? run.text(was.get(name), before, 60) : "";
          return (
            <tr key={name} class={`${changed.has(name) ? "changed" : ""} ${view.name.value === name ? "selected" : ""}`}>
              <th scope="row">
                <button type="button" class="name" aria-pressed={view.name.value === name} onClick={() => view.select(name)} title={`${clean(name)}: select, for its history and its changes on the timeline`}>
                  {clean(name)}
                </button>
              </th>
              <td>
                <Node path={`${frame.func.name}/${name}`} value={value} step={step} shared={shared} depth={0} />
                {changed.has(name) && <span class="was">{old ? <>was <span class="mono">{old}</span>{when}</> : "new"}</span>}
              </td>
              <td class="actions">
                <IconButton icon="why" label={`Why is ${clean(name)} so?`} onClick={() => view.ask({ frame, name, step })} />
                <IconButton icon="pin" label={`Pin ${clean(name)}`} pressed={view.pins.value.includes(name)} onClick={() => view.togglePin(name)} />
              </td>
            </tr>
          );
        })}
        {gone.map((name) => (
          <tr key={name} class="changed">
            <th scope="row"><span class="name">{clean(name)}</span></th>
            <td><span class="was">deleted; was <span class="mono">{run.text(was.get(name), before, 60)}</span></span></td>
            <td />
          </tr>
        ))}
      </tbody>
    </table>
    </>
  );
}

/** A value that can be opened when it is an object with content. */
export function Node(props: { path: string; value: Value; step: number; shared: Set<number>; depth: number }) {
  const view = useView();
  const objects = view.run.objects(props.step);
  const ref = refOf(props.value);
  // A deque's or Counter's items are written out in place; everything else is a reference.
  const entry = ref > 0 ? objects.get(ref) : props.value;
  const inner = Array.isArray(entry) ? slots(entry) : [];
  const open = view.opened.value.has(props.path);
  const badge = ref > 0 && <RefBadge ref={ref} shared={props.shared.has(ref)} />;
  if (inner.length === 0 || props.depth > 8) {
    return (
      <span class="leaf">
        <ValueText value={props.value} objects={objects} /> {badge}
      </span>
    );
  }
  return (
    <div class="tree-value">
      <button type="button" class="twist" aria-expanded={open} onClick={() => view.toggleOpen(props.path)}>
        <Icon name="open" />
        {open ? <span class="v-kind">{Array.isArray(entry) ? clean(kindOf(entry)) : ""}</span> : <ValueText value={props.value} objects={objects} />}
      </button>{" "}
      {badge}
      {open && (
        <ul class="slots">
          {inner.map((slot, i) => (
            <li key={i}>
              <span class="slot">{clean(slot.label)}</span>
              <Node path={`${props.path}/${slot.label}`} value={slot.value} step={props.step} shared={props.shared} depth={props.depth + 1} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

const HISTORY_SHOWN = 60;

/** Everything the selected variable was in this call. */
function History() {
  const view = useView();
  const frame = view.frame.value;
  const name = view.name.value;
  if (!frame) return null;
  const moments = history(view.run, frame, name);
  if (moments.length === 0) return <p class="quiet">{clean(name)} is not a variable of this call.</p>;
  const now = moments.findLastIndex((m) => m.step <= view.step.value);
  const from = Math.max(0, Math.min(now - HISTORY_SHOWN / 2, moments.length - HISTORY_SHOWN));
  const shown = moments.slice(from, from + HISTORY_SHOWN);
  return (
    <section class="history" aria-label={`History of ${clean(name)}`}>
      <h3>
        {clean(name)} in this call <span class="quiet">{count(moments.length, "value")}</span>
      </h3>
      <Spark numbers={moments.map((m) => m.number)} now={now} />
      <ol class="moments">
        {from > 0 && <li class="quiet">{from} before</li>}
        {shown.map((m, i) => (
          <li key={m.step} class={from + i === now ? "now" : ""} aria-current={from + i === now ? "step" : undefined}>
            <StepLink step={m.step}>
              <span class="mono">{m.text}</span> <span class="quiet">{stepWords(m.step)}</span>
            </StepLink>
          </li>
        ))}
        {from + shown.length < moments.length && <li class="quiet">{moments.length - from - shown.length} after</li>}
      </ol>
    </section>
  );
}

/** A line through the numbers a variable was; nothing when it was not numbers. */
function Spark({ numbers, now }: { numbers: (number | null)[]; now: number }) {
  const known = numbers.filter((n): n is number => n !== null && Number.isFinite(n));
  if (known.length < 3 || known.length < numbers.length * 0.8) return null;
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const x = (i: number) => (numbers.length < 2 ? 0 : (i / (numbers.length - 1)) * 296 + 2);
  const y = (n: number) => 34 - ((n - low) / (high - low || 1)) * 30;
  const points = numbers.map((n, i) => (n === null ? "" : `${x(i).toFixed(1)},${y(n).toFixed(1)}`)).join(" ");
  const mark = numbers[now];
  return (
    <svg class="spark" viewBox="0 0 300 38" preserveAspectRatio="none" role="img" aria-label={`from ${low} to ${high}`}>
      <polyline points={points} />
      {typeof mark === "number" && <line x1={x(now)} x2={x(now)} y1="0" y2="38" />}
    </svg>
  );
}
