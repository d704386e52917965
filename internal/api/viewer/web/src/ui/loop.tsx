// A loop as a table of its passes.
import { excerpt, passAt } from "../model/loops";
import { isDeleted, clean } from "../model/text";
import { count, number } from "../model/words";
import { currentLoop } from "./moves";
import { stepWords, useView } from "./parts";

export function LoopTable() {
  const view = useView();
  const { run } = view;
  const table = currentLoop(view);
  if (!table) return <p class="quiet pad">No loop around this line, nor before it in this call. {run.sources.size === 0 && "Without the source, loops are not known."}</p>;
  const { loop, passes, columns, frame, afterGap } = table;
  const at = passAt(passes, view.step.value);
  const counted = run.result.summary?.loops?.find((l) => l.file === frame.path && l.line === loop.line)?.iterations ?? 0;
  return (
    <div class="loop">
      <p>
        <code class="quote inline">{clean(loop.text)}</code>{" "}
        <span class="quiet">
          {clean(frame.path)}:{loop.line} · {count(passes.length, "pass")} {counted > passes.length ? `of ${number(counted)} counted in the whole run` : "in this call"}
          {afterGap && ", numbered from the gap on"}
        </span>
      </p>
      <div class="scroll-x">
        <table class="passes">
          <thead>
            <tr>
              <th scope="col">pass</th>
              {columns.map((name) => <th scope="col" key={name} class="mono">{clean(name)}</th>)}
            </tr>
          </thead>
          <tbody>
            {excerpt(passes, at).map((pass, i) => {
              if (!pass) return <tr key={`gap${i}`} class="quiet"><td colSpan={columns.length + 1}>…</td></tr>;
              const current = pass.number - 1 === at;
              const values = run.variables(frame, pass.to);
              const before = run.variables(frame, pass.from);
              // What a look at the loop's head tells is still of the pass before.
              const looked = run.lookedAt(frame, pass.to) > pass.from;
              return (
                <tr key={pass.number} class={`${current ? "now" : ""} ${pass.broken ? "broken" : ""}`} aria-current={current ? "step" : undefined}>
                  <th scope="row">
                    <button type="button" class="link" onClick={() => view.jump(pass.from, frame)} aria-label={`pass ${pass.number}, ${stepWords(pass.from)}${pass.broken ? ", not finished" : ""}`}>
                      {pass.number}{pass.broken ? " ✗" : ""}
                    </button>
                  </th>
                  {columns.map((name) => {
                    if (!looked) return <td key={name} class="quiet" title="Nobody looked at the variables in this pass">·<span class="sr">not looked at</span></td>;
                    const value = values.get(name);
                    const text = value === undefined || isDeleted(value) ? "" : run.text(value, pass.to, 60);
                    const old = before.get(name);
                    const same = old !== undefined && run.text(old, pass.from, 60) === text;
                    return <td key={name} class={`mono ${same ? "quiet" : ""} ${view.name.value === name ? "selected" : ""}`}>{text}</td>;
                  })}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </div>
  );
}
