// The buttons that move through the run, and the field for a step's number.
import { useEffect, useRef } from "preact/hooks";
import { clean } from "../model/text";
import { number } from "../model/words";
import * as moves from "./moves";
import { IconButton, useView } from "./parts";

export function Controls({ compact }: { compact: boolean }) {
  const view = useView();
  const last = view.run.length - 1;
  const step = view.step.value;
  const what = view.name.value ? `of ${clean(view.name.value)}` : "of anything";
  return (
    <div class="controls" role="group" aria-label="Steps">
      <IconButton icon="first" label="First step" keys="Home" disabled={step === 0} onClick={() => view.go(0)} />
      {!compact && <IconButton icon="overBack" label="Back over calls" keys="Shift+ArrowLeft" disabled={step === 0} onClick={() => moves.over(view, -1)} />}
      <IconButton icon="back" label="Step back" keys="ArrowLeft" class="main" text={compact ? "" : "Back"} disabled={step === 0} onClick={() => view.go(step - 1)} />
      <StepField />
      <IconButton icon="forward" label="Step forward" keys="ArrowRight" class="main" text={compact ? "" : "Step"} disabled={step === last} onClick={() => view.go(step + 1)} />
      <IconButton icon="over" label="Step over calls" keys="Shift+ArrowRight" disabled={step === last} onClick={() => moves.over(view, 1)} />
      {!compact && <IconButton icon="out" label="Out to the caller" keys="Alt+ArrowUp" onClick={() => moves.out(view)} />}
      {!compact && <IconButton icon="last" label="Last step" keys="End" disabled={step === last} onClick={() => view.go(last)} />}
      {!compact && <span class="divider" />}
      {!compact && <IconButton icon="previousChange" label={`Previous change ${what}`} keys="[" onClick={() => moves.change(view, -1)} />}
      <IconButton icon="nextChange" label={`Next change ${what}`} keys="]" text={compact ? "" : "Change"} onClick={() => moves.change(view, 1)} />
      {!compact && <IconButton icon="pass" label="Next pass of the loop" keys="PageDown" text="Pass" onClick={() => moves.pass(view, 1)} />}
      <IconButton icon="exception" label="To the exception" keys="e" class="alarm" text={compact ? "" : "Exception"} disabled={view.run.raises().length === 0} onClick={() => moves.exception(view)} />
    </div>
  );
}

/** The number of the step, to read and to set. */
function StepField() {
  const view = useView();
  const field = useRef<HTMLInputElement>(null);
  const step = view.step.value;
  useEffect(() => {
    if (field.current && document.activeElement !== field.current) field.current.value = String(step + 1);
  }, [step]);
  const take = () => {
    const n = Number(field.current?.value);
    if (Number.isInteger(n) && n >= 1) view.jump(Math.min(n, view.run.length) - 1);
    if (field.current) field.current.value = String(view.step.value + 1);
  };
  return (
    <label class="step-field">
      <span class="sr">Go to step</span>
      <input id="step-number" ref={field} type="text" inputMode="numeric" size={Math.max(3, String(view.run.length).length)} defaultValue={String(step + 1)}
        onFocus={(e) => e.currentTarget.select()}
        onBlur={take}
        onKeyDown={(e) => { if (e.key === "Enter") { take(); e.currentTarget.blur(); } }}
      />
      <span class="quiet">of {number(view.run.length)}</span>
    </label>
  );
}
