// The keyboard: what each key does, and the page that says so.
import { useEffect, useRef } from "preact/hooks";
import * as moves from "./moves";
import { IconButton } from "./parts";
import type { ViewState } from "./state";

interface Key {
  keys: string[];
  words: string;
  /** Single letters can be switched off, for people whose software types them by itself. */
  single?: boolean;
  act: (view: ViewState) => void;
}

/** Every key of the view. */
export function keyList(open: { help: () => void; search: () => void }): Key[] {
  return [
    { keys: ["ArrowRight"], words: "step forward", act: (v) => v.go(v.step.value + 1) },
    { keys: ["ArrowLeft"], words: "step back", act: (v) => v.go(v.step.value - 1) },
    { keys: ["Shift+ArrowRight"], words: "step over calls", act: (v) => moves.over(v, 1) },
    { keys: ["Shift+ArrowLeft"], words: "back over calls", act: (v) => moves.over(v, -1) },
    { keys: ["Alt+ArrowUp"], words: "out to the caller", act: moves.out },
    { keys: ["Home"], words: "first step", act: (v) => v.go(0) },
    { keys: ["End"], words: "last step", act: (v) => v.go(v.run.length - 1) },
    { keys: ["PageDown"], words: "next pass of the loop", act: (v) => moves.pass(v, 1) },
    { keys: ["PageUp"], words: "previous pass of the loop", act: (v) => moves.pass(v, -1) },
    { keys: ["]"], single: true, words: "next change of the selected name, or of anything", act: (v) => moves.change(v, 1) },
    { keys: ["["], single: true, words: "previous change", act: (v) => moves.change(v, -1) },
    { keys: ["e"], single: true, words: "to the exception; again: the next one", act: moves.exception },
    { keys: ["o"], single: true, words: "next output", act: (v) => moves.output(v, 1) },
    { keys: ["y"], single: true, words: "why is the selected name so?", act: askWhy },
    { keys: ["w"], single: true, words: "pin the selected name", act: (v) => v.name.value && v.togglePin(v.name.value) },
    { keys: ["g"], single: true, words: "go to a step by its number", act: () => document.getElementById("step-number")?.focus() },
    { keys: ["/"], single: true, words: "search", act: open.search },
    { keys: ["u"], single: true, words: "undo the last jump", act: () => history.back() },
    { keys: ["?"], single: true, words: "this list", act: open.help },
  ];
}

function askWhy(view: ViewState): void {
  const frame = view.frame.value;
  if (frame && view.name.value) view.ask({ frame, name: view.name.value, step: view.step.value });
}

/** Listens for keys until the returned function is called. Fields keep theirs. */
export function listen(view: ViewState, keys: Key[]): () => void {
  const pressed = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
    const target = event.target as HTMLElement;
    const field = target.closest("input, textarea, select");
    if (field && !(field instanceof HTMLInputElement && field.type === "range" && event.key.length === 1)) return;
    // In a pane that has the focus the page keys scroll, as everywhere.
    if (event.key.startsWith("Page") && target.matches(".panel-body, .code-scroll")) return;
    const shift = event.shiftKey && event.key.length > 1 ? "Shift+" : "";
    const name = (event.altKey ? "Alt+" : "") + shift + event.key;
    const key = keys.find((k) => k.keys.includes(name));
    if (!key || (key.single && !view.singleKeys.value)) return;
    event.preventDefault();
    if (view.run.length > 0 || key.words === "this list") key.act(view);
  };
  document.addEventListener("keydown", pressed);
  return () => document.removeEventListener("keydown", pressed);
}

/** A dialog that is shown as long as it is there. */
export function Dialog(props: { title: string; close: () => void; children: preact.ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} aria-label={props.title} onClose={props.close} onClick={(e) => e.target === dialog.current && props.close()}>
      <div class="dialog-body">
        <header>
          <h2>{props.title}</h2>
          <IconButton icon="close" label="Close" onClick={props.close} />
        </header>
        {props.children}
      </div>
    </dialog>
  );
}

/** The list of keys. */
export function Help({ view, keys, close }: { view: ViewState; keys: Key[]; close: () => void }) {
  return (
    <Dialog title="Keys" close={close}>
      <dl class="keys">
        {keys.map((k) => (
          <div key={k.words}>
            <dt>{k.keys.map((name) => <kbd key={name}>{keyName(name)}</kbd>)}</dt>
            <dd>{k.words}</dd>
          </div>
        ))}
      </dl>
      <label class="switch">
        <input type="checkbox" checked={view.singleKeys.value} onChange={(e) => (view.singleKeys.value = e.currentTarget.checked)} /> Single letters are keys
      </label>
      <p class="quiet">A click on a line number goes to the line's next execution, Shift+click to the one before. A click on a name selects it.</p>
      <h3>On the timeline</h3>
      <ul class="legend">
        <li><span class="swatch depth" aria-hidden="true" /> how deep the calls are</li>
        <li><span class="swatch bad" aria-hidden="true" /> an exception is raised</li>
        <li><span class="swatch change" aria-hidden="true" /> the selected name changes</li>
        <li><span class="swatch good" aria-hidden="true" /> something was written</li>
        <li><span class="hatch" aria-hidden="true" /> events are missing</li>
      </ul>
    </Dialog>
  );
}

function keyName(name: string): string {
  return name.replace("ArrowRight", "→").replace("ArrowLeft", "←").replace("ArrowUp", "↑").replace("Page", "Page ").replace("+", " + ");
}
