// What every pane of the view shows and changes: one run, one step, one frame,
// one name. Every pane renders from it, and everything in every pane sets it.
import { computed, effect, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { Run, Frame } from "../model/run";
import { Syntax } from "../model/syntax";
import type { Place } from "../model/why";

/** The panels beside and below the source. */
export type Tab = "source" | "values" | "objects" | "output" | "calls" | "loop" | "exceptions" | "compare" | "result";

/** How much room there is: one pane, two rows, two columns, three columns. */
export type Layout = "narrow" | "middle" | "wide" | "ultra";

export class ViewState {
  readonly step: Signal<number>;
  /** The frame a person picked; null follows the innermost one. */
  readonly picked = signal<number | null>(null);
  /** The selected variable, "" for none. */
  readonly name = signal("");
  readonly pins = signal<string[]>([]);
  readonly tab = signal<Tab>("output");
  /** True once a person, or the address, has picked a tab. */
  readonly tabChosen = signal(false);
  /** The file a person looks at; "" follows the frame. */
  readonly file = signal("");
  /** The chain of "why this value", empty when it is closed. */
  readonly chain = signal<Place[]>([]);
  readonly onlyChanged = signal(false);
  readonly definitions = signal(false);
  readonly singleKeys = signal(true);
  readonly announcement = signal("");
  readonly other = signal<{ run: Run; title: string } | null>(null);
  /** What a person opened in the values, by path; it stays open while stepping. */
  readonly opened = signal<ReadonlySet<string>>(new Set());

  readonly stack: ReadonlySignal<Frame[]>;
  readonly frame: ReadonlySignal<Frame | null>;
  readonly path: ReadonlySignal<string>;
  private readonly syntaxes = new Map<string, Syntax>();

  constructor(readonly run: Run) {
    this.step = signal(run.opening());
    if (run.result.exception || run.result.summary?.thread_exceptions?.length) this.tab.value = "exceptions";
    this.stack = computed(() => (run.length > 0 ? run.stack(this.step.value) : []));
    this.frame = computed(() => this.stack.value.find((f) => f.id === this.picked.value) ?? this.stack.value[0] ?? null);
    this.path = computed(() => this.file.value || this.frame.value?.path || this.failedFile());
  }

  private failedFile(): string {
    return this.run.result.exception?.file || this.run.input?.entrypoint || [...this.run.sources.keys()][0] || "";
  }

  syntaxOf = (path: string): Syntax | undefined => {
    const lines = this.run.sources.get(path);
    if (!lines) return undefined;
    let syntax = this.syntaxes.get(path);
    if (!syntax) {
      syntax = new Syntax(lines.join("\n"));
      this.syntaxes.set(path, syntax);
    }
    return syntax;
  };

  /** Moves by stepping: the address follows, the history does not grow. */
  go(step: number): void {
    if (step < 0 || step >= this.run.length || step === this.step.value) return;
    this.file.value = "";
    this.step.value = step;
  }

  /** Moves by a jump: Back returns to where it began. */
  jump(step: number, frame?: Frame): void {
    if (step < 0 || step >= this.run.length) return;
    this.pushPlace();
    this.go(step);
    this.file.value = "";
    this.picked.value = frame && frame !== this.run.stack(step)[0] ? frame.id : null;
  }

  select(name: string): void {
    this.name.value = this.name.value === name ? "" : name;
  }

  show(tab: Tab): void {
    this.tab.value = tab;
    this.tabChosen.value = true;
  }

  togglePin(name: string): void {
    const pins = this.pins.value;
    this.pins.value = pins.includes(name) ? pins.filter((p) => p !== name) : [...pins, name];
  }

  toggleOpen(key: string): void {
    const opened = new Set(this.opened.value);
    if (!opened.delete(key)) opened.add(key);
    this.opened.value = opened;
  }

  /** Asks why a variable has its value, as a new chain or as the next link of the present one. */
  ask(place: Place, onward = false): void {
    if (!onward) this.pushPlace();
    this.chain.value = onward ? [...this.chain.value, place] : [place];
    this.name.value = place.name;
  }

  private pushPlace(): void {
    const hash = this.hash();
    if (location.hash !== hash) history.replaceState(null, "", hash);
    history.pushState(null, "", hash);
  }

  /** The place as it stands in the address. */
  private hash(): string {
    const parts = [`s=${this.run.length > 0 ? this.run.event(this.step.value).seq : 0}`];
    if (this.picked.value !== null) parts.push(`f=${this.picked.value}`);
    if (this.name.value) parts.push(`v=${encodeURIComponent(this.name.value)}`);
    if (this.pins.value.length > 0) parts.push(`p=${this.pins.value.map(encodeURIComponent).join(",")}`);
    if (this.tabChosen.value) parts.push(`t=${this.tab.value}`);
    return "#" + parts.join("&");
  }

  /** Takes the place from the address; what is missing or wrong is left as it is. */
  readAddress(): void {
    const parts = new Map(location.hash.slice(1).split("&").map((part) => part.split("=", 2) as [string, string]));
    const seq = Number(parts.get("s"));
    if (seq > 0 && this.run.length > 0) this.step.value = this.run.stepOf(seq);
    const frame = Number(parts.get("f"));
    this.picked.value = this.run.frames.has(frame) ? frame : null;
    this.name.value = decode(parts.get("v"));
    this.pins.value = (parts.get("p") ?? "").split(",").map(decode).filter((name) => name !== "");
    const tab = parts.get("t") as Tab | undefined;
    if (tab && TABS.includes(tab)) this.show(tab);
    this.file.value = "";
  }

  /** Keeps address and state in step until the returned function is called. */
  followAddress(): () => void {
    this.readAddress();
    const read = () => this.readAddress();
    addEventListener("popstate", read);
    addEventListener("hashchange", read);
    let waiting = 0;
    const stop = effect(() => {
      const hash = this.hash();
      // Browsers bound how often the address may change; holding a key down exceeds it.
      clearTimeout(waiting);
      waiting = setTimeout(() => location.hash !== hash && history.replaceState(null, "", hash), 120) as unknown as number;
    });
    return () => {
      stop();
      clearTimeout(waiting);
      removeEventListener("popstate", read);
      removeEventListener("hashchange", read);
    };
  }
}

const TABS: Tab[] = ["source", "values", "objects", "output", "calls", "loop", "exceptions", "compare", "result"];

function decode(text: string | undefined): string {
  try {
    return decodeURIComponent(text ?? "");
  } catch {
    return "";
  }
}
