// The chain of "why this value", newest first.
import { functionName } from "../model/run";
import { clean } from "../model/text";
import { why, type Cause } from "../model/why";
import { Icon, IconButton, StepLink, stepWords, useView } from "./parts";

export function Why() {
  const view = useView();
  const places = view.chain.value;
  return (
    <section class="why" aria-label="Why this value">
      <header>
        <h3>Why is <span class="mono">{clean(places[0]?.name ?? "")}</span> so?</h3>
        <IconButton icon="close" label="Close the explanation" onClick={() => (view.chain.value = [])} />
      </header>
      <ol>
        {places.map((place, i) => {
          const cause = why(view.run, view.syntaxOf, place);
          return (
            <li key={i}>
              {cause ? <Link cause={cause} last={i === places.length - 1} index={i} /> : <p class="quiet">{clean(place.name)} has no value at {stepWords(place.step)}.</p>}
            </li>
          );
        })}
      </ol>
    </section>
  );
}

function Link({ cause, last, index }: { cause: Cause; last: boolean; index: number }) {
  const view = useView();
  const to = cause.made >= 0 ? cause.made : cause.seen;
  const shorten = () => (view.chain.value = view.chain.value.slice(0, index + 1));
  return (
    <div class={`cause ${cause.copy ? "copy" : ""}`}>
      <p>
        <span class="mono name">{clean(cause.subject.name)}</span>
        {cause.from ? <> went from <span class="mono">{cause.from}</span> to </> : " became "}
        <span class="mono strong">{cause.text}</span>
      </p>
      <p class="place">
        {!cause.sure && "probably "}{cause.how} at{" "}
        <StepLink step={to}>{stepWords(to)}{cause.line > 0 && `, ${clean(cause.frame.path)}:${cause.line}`}</StepLink>
        {cause.frame.func.kind !== "module" && <> in {clean(functionName(cause.frame.func))}</>}
      </p>
      {cause.source && <pre class="quote">{clean(cause.source)}</pre>}
      {cause.operands.length > 0 && (
        <ul class="operands" aria-label="Values it used">
          {cause.operands.map((o) => (
            <li key={o.name}>
              <button
                type="button"
                class="operand"
                title={`Why was ${clean(o.name)} so?`}
                onClick={() => {
                  if (!last) shorten();
                  view.ask({ frame: o.frame, name: o.name, step: o.step }, true);
                }}
              >
                <span class="mono">{clean(o.name)}</span> <span class="quiet">{o.stale ? "was, when last seen," : "was"}</span> <span class="mono">{o.text}</span>
                <Icon name="why" />
              </button>
            </li>
          ))}
        </ul>
      )}
      {cause.inner.length > 0 && (
        <ul class="operands" aria-label="Calls it made">
          {cause.inner.map((c) => (
            <li key={c.frame.id}>
              <StepLink step={c.step} class="operand"><span aria-hidden="true">↘ </span><span class="mono">{c.text}</span></StepLink>
            </li>
          ))}
        </ul>
      )}
      {cause.again >= 0 && (
        <p class="quiet">
          Assigned again at <StepLink step={cause.again}>{stepWords(cause.again)}</StepLink>, with the same value.
        </p>
      )}
      {cause.end && <p class="end">{cause.end}</p>}
    </div>
  );
}
