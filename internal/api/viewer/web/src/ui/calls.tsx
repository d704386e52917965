// The calls of the run: a picture over all steps, the tree, the functions.
import { useEffect, useRef, useState } from "preact/hooks";
import { callArguments, callText, endOf, functionRows } from "../model/calls";
import { functionName, type Frame } from "../model/run";
import { clean } from "../model/text";
import { count, number } from "../model/words";
import { Flame } from "./flame";
import { StepLink, stepWords, useView } from "./parts";

export function Calls() {
  const view = useView();
  const [list, setList] = useState(false);
  if (view.run.length === 0) return <p class="quiet pad">Nothing was recorded.</p>;
  return (
    <div class="calls">
      <Flame />
      <div class="filters">
        <button type="button" class="chip" aria-pressed={!list} onClick={() => setList(false)}>Tree</button>
        <button type="button" class="chip" aria-pressed={list} onClick={() => setList(true)}>Functions</button>
      </div>
      {list ? <Functions /> : <Tree />}
    </div>
  );
}

const HEAD = 40;
const TAIL = 5;

interface Item {
  key: string;
  frame: Frame | null;
  level: number;
  open: boolean;
  hidden: number;
}

/** The tree as rows: open calls with their children; a long list of children is cut in its middle. */
function rowsOf(frames: Frame[], level: number, isOpen: (f: Frame) => boolean, whole: ReadonlySet<string>, key: string, rows: Item[]): void {
  const cut = frames.length > HEAD + TAIL + 1 && !whole.has(key);
  const shown: (Frame | null)[] = cut ? [...frames.slice(0, HEAD), null, ...frames.slice(-TAIL)] : frames;
  for (const frame of shown) {
    if (!frame) {
      rows.push({ key: `more/${key}`, frame: null, level, open: false, hidden: frames.length - HEAD - TAIL });
      continue;
    }
    const open = frame.children.length > 0 && isOpen(frame);
    rows.push({ key: String(frame.id), frame, level, open, hidden: 0 });
    if (open) rowsOf(frame.children, level + 1, isOpen, whole, String(frame.id), rows);
  }
}

function Tree() {
  const view = useView();
  const host = useRef<HTMLUListElement>(null);
  const [toggled, setToggled] = useState<ReadonlySet<number>>(new Set());
  const [whole, setWhole] = useState<ReadonlySet<string>>(new Set());
  const [focus, setFocus] = useState("");
  const stack = new Set(view.stack.value);
  const { run } = view;
  const isOpen = (f: Frame) => (stack.has(f) || f.func.kind === "module" ? !toggled.has(f.id) : toggled.has(f.id));
  const rows: Item[] = [];
  rowsOf(run.roots, 1, isOpen, whole, "root", rows);
  const current = view.stack.value[0];
  const active = rows.some((r) => r.key === focus) ? focus : current && rows.some((r) => r.frame === current) ? String(current.id) : rows[0]?.key;
  const flip = (f: Frame) => {
    const next = new Set(toggled);
    if (!next.delete(f.id)) next.add(f.id);
    setToggled(next);
  };
  const act = (row: Item) => {
    if (row.frame) view.jump(row.frame.steps[0] ?? 0);
    else setWhole(new Set([...whole, row.key.slice("more/".length)]));
  };
  const move = (key: string) => {
    setFocus(key);
    host.current?.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`)?.focus();
  };
  const pressed = (event: KeyboardEvent) => {
    const at = rows.findIndex((r) => r.key === active);
    const row = rows[at];
    if (!row || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "ArrowDown" && rows[at + 1]) move(rows[at + 1]?.key ?? "");
    else if (event.key === "ArrowUp" && rows[at - 1]) move(rows[at - 1]?.key ?? "");
    else if (event.key === "ArrowRight" && row.frame && row.frame.children.length > 0 && !row.open) flip(row.frame);
    else if (event.key === "ArrowLeft" && row.frame && row.open) flip(row.frame);
    else if (event.key === "ArrowLeft") {
      const parent = rows.slice(0, at).findLast((r) => r.level < row.level);
      if (parent) move(parent.key);
    } else if (event.key === "Enter" || event.key === " ") act(row);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <ul class="tree" role="tree" aria-label="Calls" ref={host} onKeyDown={pressed}>
      {rows.map((row) => (
        <li
          key={row.key}
          role="treeitem"
          data-key={row.key}
          aria-level={row.level}
          aria-expanded={row.frame && row.frame.children.length > 0 ? row.open : undefined}
          aria-selected={row.frame === current}
          tabIndex={row.key === active ? 0 : -1}
          class={row.frame && stack.has(row.frame) ? "on-stack" : ""}
          style={{ paddingInlineStart: `${Math.min(row.level - 1, 24) * 0.9}rem` }}
          onFocus={() => setFocus(row.key)}
        >
          <Branch row={row} flip={flip} act={act} />
        </li>
      ))}
    </ul>
  );
}

function Branch({ row, flip, act }: { row: Item; flip: (f: Frame) => void; act: (row: Item) => void }) {
  const { run } = useView();
  const { frame } = row;
  if (!frame) return <button type="button" class="link" tabIndex={-1} onClick={() => act(row)}>{count(row.hidden, "more call")}</button>;
  const end = endOf(run, frame);
  const thread = frame.thread !== (frame.parent?.thread ?? run.threads[0]) ? `thread ${run.threads.indexOf(frame.thread) + 1}` : "";
  return (
    <>
      <button type="button" class={`twist ${frame.children.length > 0 ? "" : "none"}`} tabIndex={-1} aria-hidden="true" onClick={() => frame.children.length > 0 && flip(frame)}>
        {frame.children.length > 0 ? (row.open ? "▾" : "▸") : "·"}
      </button>
      <button type="button" class="link" tabIndex={-1} onClick={() => act(row)}>
        <span class="mono">{clean(callText(run, frame))}</span>
        {frame.func.kind !== "module" && frame.func.kind !== "class" && (
          <span class={`mono result ${end.kind === "raised" ? "fail" : ""}`}> {end.kind === "returned" ? (end.text ? `→ ${end.text}` : "") : end.text}</span>
        )}
        {thread && <span class="quiet"> {thread}</span>}
      </button>
    </>
  );
}

function Functions() {
  const view = useView();
  const { run } = view;
  const rows = functionRows(run);
  const [open, setOpen] = useState("");
  useEffect(() => setOpen(""), [run]);
  if (rows.length === 0) return <p class="quiet pad">No function was called.</p>;
  return (
    <div class="functions">
      {rows.slice(0, 200).map((row) => (
        <details key={row.place + row.name} open={open === row.place + row.name} onToggle={(e) => (e.currentTarget as HTMLDetailsElement).open && setOpen(row.place + row.name)}>
          <summary>
            <span class="mono">{clean(row.name)}</span> <span class="quiet">{clean(row.place)} · {count(row.calls.length, "call")}</span>
            {row.none > 0 && <span class="quiet"> · None in {number(row.none)}</span>}
            {row.raised > 0 && <span class="fail"> · raised in {number(row.raised)}</span>}
          </summary>
          {open === row.place + row.name && (
            <ol class="raises">
              {row.calls.slice(0, 100).map((frame) => {
                const end = endOf(run, frame);
                return (
                  <li key={frame.id}>
                    <StepLink step={frame.steps[0] ?? 0}>
                      <span class="mono">{clean(functionName(frame.func))}({clean(callArguments(run, frame))}) {end.kind === "returned" ? `→ ${end.text}` : end.text}</span>{" "}
                      <span class="quiet">{stepWords(frame.steps[0] ?? 0)}</span>
                    </StepLink>
                  </li>
                );
              })}
              {row.calls.length > 100 && <li class="quiet">{number(row.calls.length - 100)} more</li>}
            </ol>
          )}
        </details>
      ))}
    </div>
  );
}
