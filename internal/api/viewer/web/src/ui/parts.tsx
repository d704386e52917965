// Small pieces that several panes use.
import type { ComponentChildren } from "preact";
import { useContext } from "preact/hooks";
import { createContext } from "preact";
import { number } from "../model/words";
import { refOf, valueText, type Objects } from "../model/text";
import type { Value } from "../model/types";
import type { ViewState } from "./state";

const Context = createContext<ViewState | null>(null);

/** Gives the panes below it the view they show. */
export const ViewProvider = Context.Provider;

/** The view that a pane shows. */
export function useView(): ViewState {
  const view = useContext(Context);
  if (!view) throw new Error("there is no view here");
  return view;
}

const ICONS = {
  first: "M6 5v14M19 5l-9 7 9 7z",
  last: "M18 5v14M5 5l9 7-9 7z",
  back: "M16 5l-9 7 9 7z",
  forward: "M8 5l9 7-9 7z",
  over: "M4 14a8 7 0 0 1 15-2M19 5v7h-7M12 18h.01",
  overBack: "M20 14a8 7 0 0 0-15-2M5 5v7h7M12 18h.01",
  out: "M12 20V6M6 11l6-6 6 6M5 20h14",
  nextChange: "M5 12h9M10 7l5 5-5 5M19 6v12",
  previousChange: "M19 12h-9M14 7l-5 5 5 5M5 6v12",
  exception: "M12 4v10M12 19v.5",
  pass: "M17 4l3 3-3 3M20 7H8a4 4 0 0 0 0 8h1M7 20l-3-3 3-3M4 17h12a4 4 0 0 0 0-8h-1",
  pin: "M9 4h6l-1 6 3 3H7l3-3zM12 13v7",
  why: "M9 9a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.2-1.5 2.4M12 18v.5",
  close: "M6 6l12 12M18 6L6 18",
  help: "M4 7h16v10H4zM7 10h.01M11 10h.01M15 10h.01M8 14h8",
  theme: "M12 4a8 8 0 1 0 8 8 6 6 0 0 1-8-8z",
  copy: "M10 14l4-4M9 11l-3 3a3 3 0 0 0 4 4l3-3M15 13l3-3a3 3 0 0 0-4-4l-3 3",
  edit: "M5 19l1-4L16 5l3 3L9 18z",
  search: "M11 5a6 6 0 1 0 0 12 6 6 0 0 0 0-12zM16 16l4 4",
  open: "M9 6l6 6-6 6",
} as const;

/** The names of the pictures. */
export type IconName = keyof typeof ICONS;

/** A picture beside or instead of words; always decoration, never the only name. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={ICONS[name]} />
    </svg>
  );
}

/** A button with a picture; its name is read out and shown on hover, in words where there is room. */
export function IconButton(props: {
  icon: IconName;
  label: string;
  keys?: string;
  text?: string;
  class?: string;
  disabled?: boolean;
  pressed?: boolean;
  onClick: (event: MouseEvent) => void;
}) {
  return (
    <button
      type="button"
      class={`button ${props.text ? "" : "square"} ${props.class ?? ""}`}
      aria-label={props.label}
      aria-keyshortcuts={props.keys}
      aria-pressed={props.pressed}
      title={props.keys ? `${props.label} (${props.keys})` : props.label}
      disabled={props.disabled}
      onClick={props.onClick}
    >
      <Icon name={props.icon} />
      {props.text && <span class="button-text">{props.text}</span>}
    </button>
  );
}

/** A titled part of the page. */
export function Panel(props: { title: string; class?: string; tools?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class={`panel ${props.class ?? ""}`} aria-label={props.title}>
      <header class="panel-head">
        <h2>{props.title}</h2>
        {props.tools}
      </header>
      <div class="panel-body" tabIndex={0} role="group" aria-label={props.title}>
        {props.children}
      </div>
    </section>
  );
}

/** The number of an object; hovering or focusing it shows everything that holds the object. */
export function RefBadge({ ref: number, shared }: { ref: number; shared?: boolean }) {
  return (
    <span class={`ref hue${number % 6} ${shared ? "shared" : ""}`} data-ref={number} title={`object ${number}`}>
      <span aria-hidden="true">◆</span>
      <span class="sr">object </span>
      {number}
    </span>
  );
}

/** A value on one line, coloured by kind. */
export function ValueText({ value, objects, limit = 120 }: { value: Value | undefined; objects: Objects; limit?: number }) {
  return <span class={`value ${valueClass(value)}`}>{valueText(value, objects, limit)}</span>;
}

function valueClass(value: Value | undefined): string {
  if (value === null || value === undefined || typeof value === "boolean") return "v-const";
  if (typeof value === "number") return "v-number";
  if (typeof value === "string") return "v-string";
  if (refOf(value) > 0) return "v-object";
  const tag = Array.isArray(value) ? value[0] : "";
  if (tag === "STR" || tag === "BYTES") return "v-string";
  if (tag === "FLOAT" || tag === "BIGINT" || tag === "SPECIAL_FLOAT") return "v-number";
  return "v-other";
}

/** A button that looks like text and jumps to a step. */
export function StepLink(props: { step: number; children: ComponentChildren; class?: string; label?: string }) {
  const view = useView();
  return (
    <button
      type="button"
      class={`link ${props.class ?? ""}`}
      aria-label={props.label}
      onClick={() => view.jump(props.step)}
    >
      {props.children}
    </button>
  );
}

/** The step in words for a link: "step 212". */
export function stepWords(step: number): string {
  return `step ${number(step + 1)}`;
}
