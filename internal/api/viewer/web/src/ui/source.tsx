// The source: which lines ran and how often, the current line, and beside each
// line what it changed when it last ran in this call.
//
// Lines are made once for a file and then only marked, so that a step costs the
// same in a file of ten lines and of ten thousand. All text is put in as text.
import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { resolve } from "../model/why";
import { isDeleted, visibleLine } from "../model/text";
import { number } from "../model/words";
import { moment } from "./words";
import { execution } from "./moves";
import { useView } from "./parts";
import type { ViewState } from "./state";

export function Source() {
  const view = useView();
  const host = useRef<HTMLDivElement>(null);
  const path = view.path.value;
  const paths = [...view.run.sources.keys()];
  if (paths.length > 0 && !paths.includes(path)) paths.push(path);

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const list = new LineList(view, path);
    element.replaceChildren(list.element);
    const stop = effect(() => list.mark(element));
    return () => {
      stop();
      list.close();
    };
  }, [view, path]);

  return (
    <section class="panel source" aria-label="Source">
      <header class="panel-head">
        {paths.length > 1 ? (
          <div class="files" role="group" aria-label="Files">
            {paths.map((p) => (
              <button type="button" class={`file ${p === path ? "active" : ""}`} aria-pressed={p === path} onClick={() => (view.file.value = p)}>
                {visibleLine(p)}
              </button>
            ))}
          </div>
        ) : (
          <h2 class="mono">{visibleLine(path) || "Source"}</h2>
        )}
      </header>
      <div class="code-scroll" ref={host} tabIndex={0} role="group" aria-label={`Source of ${visibleLine(path)}`} />
    </section>
  );
}

interface Row {
  item: HTMLLIElement;
  gutter: HTMLButtonElement;
  code: HTMLElement;
  notes: HTMLElement;
}

/** The lines of one file in the page. */
class LineList {
  readonly element = document.createElement("ol");
  private readonly rows: Row[] = [];
  private current = -1;
  private noted = new Map<number, string>();
  private timer = 0;

  constructor(
    private readonly view: ViewState,
    private readonly path: string,
  ) {
    const lines = view.run.sources.get(path) ?? [];
    const hits = new Map(Object.entries(view.run.result.summary?.lines?.[path] ?? {}));
    const most = [...hits.values()].reduce((a, b) => Math.max(a, b), HOT_FROM);
    this.element.className = "lines";
    if (lines.length === 0) this.unknown();
    lines.forEach((text, i) => this.add(i + 1, text, hits.get(String(i + 1)) ?? 0, most));
    this.element.addEventListener("click", this.clicked);
    this.element.addEventListener("mouseover", this.hovered);
    this.element.addEventListener("keydown", this.pressed);
    this.colour();
  }

  close(): void {
    clearTimeout(this.timer);
  }

  private unknown(): void {
    const item = document.createElement("li");
    item.className = "nothing";
    item.textContent = "The source is not here: the input of this job is no longer kept, or was not sent along.";
    this.element.append(item);
  }

  private add(line: number, text: string, hits: number, most: number): void {
    const item = document.createElement("li");
    item.className = `line heat${heat(hits, most)}`;
    item.dataset["line"] = String(line);
    const gutter = document.createElement("button");
    gutter.type = "button";
    gutter.className = "gutter";
    gutter.tabIndex = -1;
    gutter.setAttribute("aria-label", `line ${line}, ${hits > 0 ? `ran ${hits === 1 ? "once" : number(hits) + " times"}` : "did not run"}`);
    if (hits > 0) gutter.dataset["hits"] = short(hits);
    gutter.append(span("number", String(line)));
    if (hits > 0) gutter.title = `ran ${number(hits)} ${hits === 1 ? "time" : "times"}. Click: next time. Shift+click: time before.`;
    const code = document.createElement("code");
    code.textContent = visibleLine(text) || "\u200b";
    const notes = span("notes", "");
    item.append(gutter, code, notes);
    this.rows.push({ item, gutter, code, notes });
    this.element.append(item);
  }

  /** Colours the lines in slices, after they are shown. */
  private colour(): void {
    let line = 0;
    const slice = () => {
      const pieces = this.view.syntaxOf(this.path)?.highlight();
      const lines = this.view.run.sources.get(this.path) ?? [];
      const end = Math.min(this.rows.length, line + 300);
      for (; line < end; line++) this.paint(line, lines[line] ?? "", pieces?.[line] ?? []);
      if (line < this.rows.length) this.timer = setTimeout(slice, 0) as unknown as number;
    };
    this.timer = setTimeout(slice, 0) as unknown as number;
  }

  private paint(index: number, text: string, pieces: { from: number; to: number; cls: string }[]): void {
    const code = this.rows[index]?.code;
    if (!code || pieces.length === 0) return;
    code.textContent = "";
    let at = 0;
    for (const piece of pieces) {
      if (piece.from > at) code.append(visibleLine(text.slice(at, piece.from)));
      const part = span(piece.cls, visibleLine(text.slice(piece.from, piece.to)));
      if (part.textContent === this.element.dataset["selected"]) part.classList.toggle("selected", part.classList.contains("v"));
      code.append(part);
      at = piece.to;
    }
    if (at < text.length) code.append(visibleLine(text.slice(at)));
  }

  private clicked = (event: MouseEvent): void => {
    const target = event.target as HTMLElement;
    const line = Number(target.closest<HTMLElement>("li")?.dataset["line"]);
    if (!line) return;
    if (target.closest(".gutter")) execution(this.view, this.path, line, event.shiftKey ? -1 : 1);
    else if (target.classList.contains("v") && this.valueOf(target.textContent ?? "")) this.view.select(target.textContent ?? "");
  };

  private hovered = (event: MouseEvent): void => {
    const target = event.target as HTMLElement;
    if (target.classList.contains("v")) target.title = this.valueOf(target.textContent ?? "") ?? "";
  };

  /** Up and down move between line numbers; Enter is the button's own. */
  private pressed = (event: KeyboardEvent): void => {
    const target = event.target as HTMLElement;
    if (!target.classList.contains("gutter") || (event.key !== "ArrowUp" && event.key !== "ArrowDown")) return;
    const item = target.closest("li");
    const next = event.key === "ArrowDown" ? item?.nextElementSibling : item?.previousElementSibling;
    next?.querySelector<HTMLElement>(".gutter")?.focus();
    event.preventDefault();
    event.stopPropagation();
  };

  private valueOf(name: string): string | null {
    const frame = this.view.frame.peek();
    if (!frame || frame.path !== this.path) return null;
    const step = this.view.step.peek();
    const found = resolve(this.view.run, frame, name, step);
    return found ? `${name} = ${this.view.run.text(found.value, step, 200)}` : null;
  }

  /** Brings the marks up to the step; called again whenever something it reads changes. */
  mark(scroller: HTMLElement): void {
    const { run } = this.view;
    const name = this.view.name.value;
    if (run.length === 0) return this.markFailure(scroller);
    const step = this.view.step.value;
    const frame = this.view.frame.value;
    const at = frame ? run.lastIn(frame, step) : -1;
    const here = frame?.path === this.path && at >= 0 ? run.event(at).line : -1;
    this.markNotes(step);
    this.markCurrent(here, step, at, scroller);
    this.element.dataset["selected"] = name;
    for (const element of this.element.querySelectorAll(".v.selected")) element.classList.remove("selected");
    if (name) {
      for (const element of this.element.querySelectorAll(".v")) {
        if (element.textContent === name) element.classList.add("selected");
      }
    }
  }

  private markCurrent(line: number, step: number, at: number, scroller: HTMLElement): void {
    const old = this.rows[this.current - 1];
    old?.item.classList.remove("current", "failing", "calling");
    old?.item.removeAttribute("aria-current");
    if (old) old.gutter.tabIndex = -1;
    this.current = line;
    const row = this.rows[line - 1];
    if (!row) return;
    const event = this.view.run.event(step);
    row.item.classList.add("current");
    if (at !== step) row.item.classList.add("calling");
    if (at === step && (event.event === "exception" || event.event === "unwind")) row.item.classList.add("failing");
    row.item.setAttribute("aria-current", "step");
    row.gutter.tabIndex = 0;
    show(row.item, scroller);
  }

  private markFailure(scroller: HTMLElement): void {
    const end = this.view.run.result.exception;
    const row = end && end.file === this.path ? this.rows[end.line - 1] : undefined;
    if (!row || !end) return;
    row.item.classList.add("current", "failing");
    row.notes.replaceChildren(span("note-fail", visibleLine(`✗ ${end.type}: ${end.message}`)));
    show(row.item, scroller);
  }

  /** Writes beside each line of this call what it changed when it last ran. */
  private markNotes(step: number): void {
    const { run } = this.view;
    const frame = this.view.frame.value;
    const notes = new Map<number, string>();
    if (frame?.path === this.path) {
      let next = -1;
      for (let i = frame.steps.length - 1; i >= 0; i--) {
        const at = frame.steps[i] ?? 0;
        if (at > step) continue;
        const { line, unseen } = run.event(at);
        const told = next >= 0 && !run.gapBetween(at, next) ? this.changes(next) : "";
        // After events that nobody looked at, any of their lines may have made the change.
        if (!notes.has(line)) notes.set(line, unseen && told ? `${told}   (by now)` : told);
        next = at;
      }
      const event = run.event(step);
      if (run.frameAt(step) === frame && event.event !== "line" && event.event !== "call") {
        const mark = event.event === "exception" || event.event === "unwind" ? "✗ " : "← ";
        notes.set(event.line, mark + moment(run, step));
      }
    }
    for (const [line, text] of this.noted) if (!notes.has(line)) this.note(line, undefined, text);
    for (const [line, text] of notes) if (this.noted.get(line) !== text) this.note(line, text, this.noted.get(line));
    this.noted = notes;
    this.element.classList.toggle("in-call", notes.size > 0);
  }

  private note(line: number, text: string | undefined, before: string | undefined): void {
    const row = this.rows[line - 1];
    if (!row) return;
    row.item.classList.toggle("ran", text !== undefined);
    if (text === before) return;
    row.notes.replaceChildren();
    if (!text) return;
    const cls = text.startsWith("✗") ? "note-fail" : text.startsWith("←") ? "note-end" : "";
    row.notes.append(span(cls, text));
  }

  private changes(step: number): string {
    const { run } = this.view;
    const values = run.variables(run.frameAt(step), step);
    const texts = run.changed(step).slice(0, 4).map((name) => {
      const value = values.get(name);
      if (value === undefined || isDeleted(value)) return `${visibleLine(name)} deleted`;
      const definition = Array.isArray(value) && ["FUNCTION", "module", "MODULE"].includes(String(value[0]));
      const inClass = run.classChanges(value, step, 36);
      if (inClass) return inClass.map((text) => visibleLine(`${name}.${text}`)).join("   ");
      return definition ? "" : `${visibleLine(name)} = ${run.text(value, step, 36)}`;
    });
    return texts.filter((t) => t !== "").join("   ");
  }
}

/** Scrolls no more than is needed to have the line well in sight. */
function show(item: HTMLElement, scroller: HTMLElement): void {
  const a = item.getBoundingClientRect();
  const b = scroller.getBoundingClientRect();
  const margin = Math.min(60, b.height / 4);
  if (a.top < b.top + margin || a.bottom > b.bottom - margin) {
    scroller.scrollTop += a.top - b.top - b.height / 2.5;
  }
}

function span(cls: string, text: string): HTMLSpanElement {
  const element = document.createElement("span");
  element.className = cls;
  element.textContent = text;
  return element;
}

/** In a run where no line ran more often than this, none is shown as hot. */
const HOT_FROM = 16;

/** How warm a line is, from 0 (did not run) to 5. */
function heat(hits: number, most: number): number {
  if (hits === 0) return 0;
  return 1 + Math.round((4 * Math.log(hits)) / Math.log(most));
}

function short(n: number): string {
  if (n < 10_000) return String(n);
  if (n < 1_000_000) return Math.round(n / 1000) + "k";
  return (n / 1_000_000).toFixed(n < 10_000_000 ? 1 : 0) + "M";
}
