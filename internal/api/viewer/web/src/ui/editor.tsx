// Where a program is pasted or dropped, reviewed and sent.
import { useEffect, useRef, useState } from "preact/hooks";
import { Syntax } from "../model/syntax";
import { visibleLine } from "../model/text";
import type { Job, Limits } from "../model/types";
import { ApiError, limits as fetchLimits, submit } from "./api";
import { EXAMPLES } from "./examples";
import { fromLimits, LimitFields, toLimits, unusual } from "./limits";
import { IconButton } from "./parts";
import { ThemeButton } from "./theme";

/** A program that is being written. */
export interface Draft {
  files: { path: string; text: string }[];
  entrypoint: string;
  stdin: string;
  args: string;
  mode: string;
  limits: Partial<Record<keyof Limits, string>>;
}

/** A draft with nothing in it. */
export function emptyDraft(): Draft {
  return { files: [{ path: "main.py", text: "" }], entrypoint: "main.py", stdin: "", args: "", mode: "full", limits: {} };
}

/** The draft that leads to the job again. */
export function draftOf(job: Job): Draft {
  const files = Object.entries(job.files).map(([path, text]) => ({ path, text }));
  files.sort((a, b) => Number(b.path === job.entrypoint) - Number(a.path === job.entrypoint) || a.path.localeCompare(b.path));
  return { ...emptyDraft(), files, entrypoint: job.entrypoint, stdin: job.stdin ?? "", args: (job.args ?? []).join("\n"), mode: job.trace?.mode ?? "full", limits: fromLimits(job.limits ?? {}) };
}

export function Editor(props: { draft: Draft; notice: string; done: (id: string, draft: Draft) => void }) {
  const [draft, setDraft] = useState(props.draft);
  const [active, setActive] = useState(0);
  const [reviewed, setReviewed] = useState(false);
  const [sending, setSending] = useState(false);
  const [problem, setProblem] = useState<ApiError | null>(null);
  const [bounds, setBounds] = useState<Awaited<ReturnType<typeof fetchLimits>>>(null);
  const [dragging, setDragging] = useState(false);
  const [limitsOpen, setLimitsOpen] = useState(false);
  useEffect(() => {
    document.title = "Tracefleet";
    void fetchLimits().then((found) => {
      setBounds(found);
      const own = unusual(props.draft.limits, found?.default);
      setDraft((d) => ({ ...d, limits: { ...own, ...(d.limits === props.draft.limits ? {} : d.limits) } }));
      setLimitsOpen(Object.keys(own).length > 0);
    });
  }, []);
  // Whatever changes after the review has not been reviewed.
  const change = (more: Partial<Draft>) => {
    setDraft({ ...draft, ...more });
    setReviewed(false);
    setProblem(null);
  };
  const setFile = (index: number, file: Partial<Draft["files"][number]>) => {
    const files = draft.files.map((f, i) => (i === index ? { ...f, ...file } : f));
    const renamed = file.path !== undefined && draft.files[index]?.path === draft.entrypoint;
    change({ files, entrypoint: renamed ? (file.path ?? "") : draft.entrypoint });
  };
  const take = async (list: FileList | null | undefined) => {
    const files = [...draft.files.filter((f) => f.text !== "")];
    for (const file of list ?? []) {
      const path = file.webkitRelativePath || file.name;
      const found = files.findIndex((f) => f.path === path);
      const entry = { path, text: await file.text() };
      if (found >= 0) files[found] = entry;
      else files.push(entry);
    }
    if (files.length === 0) return;
    const start = files.find((f) => f.path === draft.entrypoint) ?? files.find((f) => f.path.endsWith("main.py")) ?? files.find((f) => f.path.endsWith(".py")) ?? files[0];
    change({ files, entrypoint: start?.path ?? "main.py" });
    setActive(Math.max(0, files.findIndex((f) => f === start)));
  };
  const send = async () => {
    setSending(true);
    setProblem(null);
    try {
      props.done(await submit(toJob(draft)), draft);
    } catch (error) {
      const found = error instanceof ApiError ? error : new ApiError(String(error), 0);
      setProblem(found);
      setLimitsOpen((open) => open || found.fields.some((f) => f.location.includes("limits")));
      setSending(false);
    }
  };
  const file = draft.files[active] ?? draft.files[0];
  const empty = draft.files.every((f) => f.text.trim() === "");
  return (
    <div
      class={`editor-page ${dragging ? "dragging" : ""}`}
      onDragOver={(e) => { e.preventDefault(); setDragging(true); }}
      onDragLeave={() => setDragging(false)}
      onDrop={(e) => { e.preventDefault(); setDragging(false); void take(e.dataTransfer?.files); }}
    >
      <Top />
      <main class="editor" id="main">
        <section class="program panel" aria-label="Program">
          <div class="panel-head">
            <div class="files" role="group" aria-label="Files">
              {draft.files.map((f, i) => (
                <button key={i} type="button" class={`file ${i === active ? "active" : ""}`} aria-pressed={i === active} onClick={() => setActive(i)}>
                  {visibleLine(f.path) || "(no name)"}{f.path === draft.entrypoint && draft.files.length > 1 ? " ▸" : ""}
                </button>
              ))}
              <button type="button" class="file add" onClick={() => { change({ files: [...draft.files, { path: `module${draft.files.length}.py`, text: "" }] }); setActive(draft.files.length); }}>+ file</button>
            </div>
            <label class="button file-button">
              Open…<input type="file" class="sr" multiple onChange={(e) => void take(e.currentTarget.files)} />
            </label>
          </div>
          {draft.files.length > 1 && file && (
            <div class="file-line">
              <label>Name <input type="text" class="mono" value={file.path} onInput={(e) => setFile(active, { path: e.currentTarget.value })} /></label>
              <label class="switch"><input type="radio" name="entrypoint" checked={file.path === draft.entrypoint} onChange={() => change({ entrypoint: file.path })} /> Run this file</label>
              <IconButton icon="close" label={`Remove ${file.path}`} onClick={() => {
                const files = draft.files.filter((_, i) => i !== active);
                change({ files, entrypoint: file.path === draft.entrypoint ? (files[0]?.path ?? "") : draft.entrypoint });
                setActive(0);
              }} />
            </div>
          )}
          <CodeField text={file?.text ?? ""} label={`Code of ${file?.path ?? ""}`} change={(text) => setFile(active, { text })} />
          {empty && (
            <p class="examples quiet">
              Paste a program, drop files here, or try:{" "}
              {EXAMPLES.map((x) => (
                <button key={x.title} type="button" class="link" onClick={() => { change({ ...emptyDraft(), files: [{ path: "main.py", text: x.code }], stdin: x.stdin, limits: draft.limits }); setActive(0); }}>{x.title}</button>
              ))}
            </p>
          )}
        </section>
        <form class="options" onSubmit={(e) => { e.preventDefault(); void send(); }}>
          <label class="field">Standard input
            <textarea class="mono" rows={4} spellcheck={false} value={draft.stdin} onInput={(e) => change({ stdin: e.currentTarget.value })} />
          </label>
          <label class="field">Arguments, one a line
            <textarea class="mono" rows={2} spellcheck={false} value={draft.args} onInput={(e) => change({ args: e.currentTarget.value })} />
          </label>
          <details open={limitsOpen} onToggle={(e) => setLimitsOpen(e.currentTarget.open)}>
            <summary>Limits and recording</summary>
            <LimitFields values={draft.limits} bounds={bounds} faults={problem?.fields ?? []} change={(limits) => change({ limits })} />
            <label class="field">Record
              <select value={draft.mode} onChange={(e) => change({ mode: e.currentTarget.value })}>
                <option value="full">every line, with values</option>
                <option value="lines">every line, no values</option>
                <option value="calls">calls only</option>
                <option value="off">nothing, just run it</option>
              </select>
            </label>
          </details>
          <div class="confirm">
            <p class="notice">{props.notice}</p>
            <label class="switch"><input id="reviewed" type="checkbox" checked={reviewed} onChange={(e) => setReviewed(e.currentTarget.checked)} /> I have reviewed the code</label>
            <button id="trace" type="submit" class="button primary" disabled={!reviewed || empty || sending} aria-describedby="lacking">{sending ? "Sending…" : "Trace"}</button>
            <p id="lacking" class="lacking">{empty ? "There is no program yet." : reviewed ? "" : "Read the code and tick the box first."}</p>
          </div>
          {problem && <Problem problem={problem} />}
        </form>
      </main>
    </div>
  );
}

/** What stands above every page but the view of a run. */
export function Top() {
  return (
    <header class="top">
      <h1><a href="/">Tracefleet</a></h1>
      <p class="quiet">Run a Python program in a sandbox and see what it did, line by line.</p>
      <ThemeButton />
    </header>
  );
}

function toJob(draft: Draft): object {
  const limits = toLimits(draft.limits);
  return {
    language: "python",
    entrypoint: draft.entrypoint,
    files: Object.fromEntries(draft.files.map((f) => [f.path, f.text])),
    stdin: draft.stdin,
    args: draft.args === "" ? [] : draft.args.replace(/\n$/, "").split("\n"),
    ...(Object.keys(limits).length > 0 ? { limits } : {}),
    trace: { mode: draft.mode, values: true, include: ["."] },
    queue: "interactive",
  };
}

/** What the server had to say against it; brought into sight, wherever that is. */
export function Problem({ problem }: { problem: ApiError }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current?.scrollIntoView({ block: "nearest" }), [problem]);
  return (
    <div class="problem" role="alert" ref={box}>
      <p>{problem.message}</p>
      {problem.fields.length > 0 && <ul>{problem.fields.map((f, i) => <li key={i}><span class="mono">{f.location.replace(/^body\./, "")}</span>: {f.message}</li>)}</ul>}
      {problem.status === 401 && <p><a href="/login">Sign in</a></p>}
    </div>
  );
}

/** A text field over its own coloured picture. Tab indents; after Escape it moves on. */
function CodeField({ text, label, change }: { text: string; label: string; change: (text: string) => void }) {
  const picture = useRef<HTMLPreElement>(null);
  const leaving = useRef(false);
  useEffect(() => {
    const element = picture.current;
    if (element) paint(element, text);
  }, [text]);
  const lines = text.split("\n").length;
  const pressed = (event: KeyboardEvent) => {
    const field = event.currentTarget as HTMLTextAreaElement;
    if (event.key === "Escape") leaving.current = true;
    else if (event.key === "Tab" && !event.shiftKey && !leaving.current) {
      event.preventDefault();
      field.setRangeText("    ", field.selectionStart, field.selectionEnd, "end");
      change(field.value);
    } else leaving.current = false;
  };
  return (
    <div class="code-field">
      <div class="code-sheet">
        <pre class="line-numbers" aria-hidden="true">{Array.from({ length: lines }, (_, i) => i + 1).join("\n")}</pre>
        <div class="code-stack">
          <pre ref={picture} aria-hidden="true" />
          <textarea id="code" aria-label={label} placeholder="Paste a Python program here" value={text} spellcheck={false} autocapitalize="off" autocomplete="off" wrap="off" rows={lines} onInput={(e) => change(e.currentTarget.value)} onKeyDown={pressed} />
        </div>
      </div>
    </div>
  );
}

const COLOUR_LIMIT = 100_000;

function paint(element: HTMLElement, text: string): void {
  element.textContent = "";
  if (text.length > COLOUR_LIMIT) return element.append(text + "\n");
  const pieces = new Syntax(text).highlight();
  text.split("\n").forEach((line, i) => {
    let at = 0;
    for (const piece of pieces[i] ?? []) {
      element.append(line.slice(at, piece.from));
      const span = document.createElement("span");
      span.className = piece.cls;
      span.textContent = line.slice(piece.from, piece.to);
      element.append(span);
      at = piece.to;
    }
    element.append(line.slice(at) + "\n");
  });
}
