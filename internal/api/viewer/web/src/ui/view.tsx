// The view of one run: the verdict on top, the source, the state, the timeline.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Run } from "../model/run";
import { clean, visible } from "../model/text";
import { raisedTotal } from "../model/effects";
import { facts, number, threadWords, verdict } from "../model/words";
import { Calls } from "./calls";
import { Compare } from "./compare";
import { Controls } from "./controls";
import { Help, keyList, listen } from "./keys";
import { LoopTable } from "./loop";
import { Output } from "./output";
import { Exceptions, Objects, ResultPanel, Stack } from "./panels";
import { IconButton, Panel, ViewProvider, useView } from "./parts";
import { Search } from "./search";
import { Source } from "./source";
import { ViewState, type Layout, type Tab } from "./state";
import { ThemeButton } from "./theme";
import { Timeline } from "./timeline";
import { changeWords, moment } from "./words";
import { ValueFilters, Values } from "./values";

/** What the page around the view can do. */
export interface Surroundings {
  /** Opens the program in the editor; undefined where there is no server. */
  edit?: () => void;
  /** Another run to compare with from the start. */
  other?: { run: Run; title: string } | null;
}

export function View({ run, around }: { run: Run; around: Surroundings }) {
  const view = useMemo(() => new ViewState(run), [run]);
  const layout = useLayout();
  const [dialog, setDialog] = useState<"" | "help" | "search">("");
  const keys = useMemo(() => keyList({ help: () => setDialog("help"), search: () => setDialog("search") }), []);
  useEffect(() => {
    if (around.other) {
      view.other.value = around.other;
      view.show("compare");
    }
    document.title = `${clean(verdict(run.result))} · Tracefleet`;
    const ends = [view.followAddress(), listen(view, keys), lightUp(), announce(view)];
    return () => ends.forEach((end) => end());
  }, [view]);
  return (
    <ViewProvider value={view}>
      <div class={`view layout-${layout} ${run.length === 0 ? "no-steps" : ""}`}>
        <Verdict around={around} open={setDialog} />
        <Panes layout={layout} online={around.edit !== undefined} />
        {run.length > 0 && (
          <footer class="moves">
            <Timeline />
            <Controls compact={layout === "narrow"} />
          </footer>
        )}
        <p class="sr" role="status" aria-live="polite">{view.announcement.value}</p>
      </div>
      {dialog === "help" && <Help view={view} keys={keys} close={() => setDialog("")} />}
      {dialog === "search" && <Search view={view} close={() => setDialog("")} />}
    </ViewProvider>
  );
}

function Verdict({ around, open }: { around: Surroundings; open: (dialog: "help" | "search") => void }) {
  const view = useView();
  const r = view.run.result;
  const good = r.status === "ok";
  const threads = threadWords(r);
  const copy = () => {
    void navigator.clipboard?.writeText(location.href).then(() => (view.announcement.value = "Link to this place copied"));
  };
  return (
    <header class={`verdict ${!good ? "bad" : threads.length > 0 ? "mixed" : "good"}`}>
      <div class="verdict-text">
        <h1><span class="mark" aria-hidden="true">{!good ? "✗" : threads.length > 0 ? "!" : "✓"}</span> {clean(visible(verdict(r)))}</h1>
        {threads[0] && <p class="fail wrap">An exception ended {clean(threads[0])}{threads.length > 1 && `, and ${number(threads.length - 1)} more`}</p>}
        <p class="quiet">{facts(r).map(clean).join(" · ")}</p>
      </div>
      <nav class="tools" aria-label="Tools">
        {around.edit && <IconButton icon="edit" label="Edit the program and run it again" text="Edit" onClick={around.edit} />}
        {view.run.length > 0 && <IconButton icon="search" label="Search the run" keys="/" onClick={() => open("search")} />}
        {navigator.clipboard && <IconButton icon="copy" label="Copy a link to this place" onClick={copy} />}
        <ThemeButton />
        <IconButton icon="help" label="Keys" keys="?" onClick={() => open("help")} />
      </nav>
    </header>
  );
}

const TITLES: Record<Tab, string> = {
  source: "Source", values: "Values", objects: "Objects", output: "Output", calls: "Calls", loop: "Loop",
  exceptions: "Exceptions", compare: "Compare", result: "Result",
};
const BELOW: Tab[] = ["output", "calls", "loop", "exceptions", "compare", "result"];

function Panes({ layout, online }: { layout: Layout; online: boolean }) {
  const view = useView();
  if (view.run.length === 0) return <NoSteps online={online} layout={layout} />;
  const wide = layout === "wide" || layout === "ultra";
  const tabs: Tab[] = wide ? BELOW : layout === "middle" ? ["values", "objects", ...BELOW] : ["source", "values", "objects", ...BELOW];
  return (
    <main class="panes" id="main">
      {layout !== "narrow" && <Source />}
      {wide && (
        <div class="side">
          <Panel title="Values" class="values-panel" tools={<ValueFilters />}><Values /></Panel>
          <div class="side-row">
            <Panel title="Stack"><Stack /></Panel>
            <Panel title="Objects"><Objects /></Panel>
          </div>
        </div>
      )}
      <Tabs tabs={tabs} online={online} />
    </main>
  );
}

/** A run without steps has a source, perhaps, and what became of it. */
function NoSteps({ online, layout }: { online: boolean; layout: Layout }) {
  const view = useView();
  const tabs: Tab[] = [...(layout === "narrow" ? (["source"] as Tab[]) : []), ...BELOW.filter((t) => t !== "calls" && t !== "loop" && t !== "compare")];
  return (
    <main class="panes" id="main">
      {layout !== "narrow" && view.run.sources.size > 0 && <Source />}
      <Tabs tabs={tabs} online={online} />
    </main>
  );
}

function Tabs({ tabs, online }: { tabs: Tab[]; online: boolean }) {
  const view = useView();
  // Until one is chosen, what matters most comes first: the source where it is not beside, the values, the end.
  const fallback = (["source", "values", view.tab.value] as Tab[]).find((t) => tabs.includes(t)) ?? "output";
  const tab = tabs.includes(view.tab.value) && view.tabChosen.value ? view.tab.value : fallback;
  const pressed = (event: KeyboardEvent) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0 || event.shiftKey || event.altKey) return;
    const next = tabs[(tabs.indexOf(tab) + by + tabs.length) % tabs.length];
    if (next) view.show(next);
    document.getElementById(`tab-${next}`)?.focus();
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <section class="panel tabs" aria-label="More">
      <div class="tab-list" role="tablist" onKeyDown={pressed}>
        {tabs.map((t) => (
          <button key={t} id={`tab-${t}`} type="button" role="tab" aria-selected={t === tab} aria-controls="tab-panel" tabIndex={t === tab ? 0 : -1} onClick={() => view.show(t)}>
            {TITLES[t]}{badge(t, view)}
          </button>
        ))}
      </div>
      <div class={`panel-body tab-${tab}`} id="tab-panel" role="tabpanel" aria-labelledby={`tab-${tab}`} tabIndex={0}>
        <h2 class="sr">{TITLES[tab]}</h2>
        <TabContent tab={tab} online={online} />
      </div>
    </section>
  );
}

function badge(tab: Tab, view: ViewState) {
  if (tab !== "exceptions") return null;
  const n = raisedTotal(view.run);
  return n > 0 ? <span class="count"> {number(n)}</span> : null;
}

function TabContent({ tab, online }: { tab: Tab; online: boolean }) {
  switch (tab) {
    case "source":
      return <Source />;
    case "values":
      return <><ValueFilters /><Values /><h3 class="pad-x">Stack</h3><Stack /></>;
    case "objects":
      return <Objects />;
    case "output":
      return <Output />;
    case "calls":
      return <Calls />;
    case "loop":
      return <LoopTable />;
    case "exceptions":
      return <Exceptions />;
    case "compare":
      return <Compare online={online} />;
    case "result":
      return <ResultPanel />;
  }
}

/** Says a step's place and changes once it has been stood on for a moment. */
function announce(view: ViewState): () => void {
  let timer = 0;
  let first = true;
  const stop = view.step.subscribe((step) => {
    clearTimeout(timer);
    if (first || view.run.length === 0) {
      first = false;
      return;
    }
    timer = setTimeout(() => {
      const changes = changeWords(view.run, step);
      view.announcement.value = `${moment(view.run, step)}${changes ? `; ${changes}` : ""}`;
    }, 300) as unknown as number;
  });
  return () => {
    stop();
    clearTimeout(timer);
  };
}

/** Hovering or focusing an object's number lights up everything that holds it. */
function lightUp(): () => void {
  const light = (event: Event) => {
    const ref = (event.target as HTMLElement).closest?.("[data-ref], [data-holds]") as HTMLElement | null;
    const number = ref?.dataset["ref"] ?? ref?.dataset["holds"];
    for (const old of document.querySelectorAll(".lit")) old.classList.remove("lit");
    if (!number) return;
    for (const found of document.querySelectorAll(`[data-ref="${number}"], [data-holds="${number}"]`)) found.classList.add("lit");
  };
  document.addEventListener("mouseover", light);
  document.addEventListener("focusin", light);
  return () => {
    document.removeEventListener("mouseover", light);
    document.removeEventListener("focusin", light);
  };
}

function useLayout(): Layout {
  const [layout, setLayout] = useState(layoutNow());
  useEffect(() => {
    const change = () => setLayout(layoutNow());
    addEventListener("resize", change);
    return () => removeEventListener("resize", change);
  }, []);
  return layout;
}

function layoutNow(): Layout {
  if (innerWidth < 600) return "narrow";
  if (innerWidth < 1100) return "middle";
  return innerWidth < 1800 ? "wide" : "ultra";
}
