// The page: the editor at /, a run at /traces/{id}, or the one run that the
// page carries with it.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { readBundle } from "./model/parse";
import { Run } from "./model/run";
import { Editor, emptyDraft, type Draft } from "./ui/editor";
import { TracePage } from "./ui/status";
import { applyTheme } from "./ui/theme";
import { View } from "./ui/view";

const host = document.getElementById("app");
const notice = document.querySelector<HTMLMetaElement>('meta[name="sandbox-notice"]')?.content ?? "";

function App() {
  const [path, setPath] = useState(location.pathname);
  const [draft, setDraft] = useState<Draft>(emptyDraft);
  const [before, setBefore] = useState<{ run: Run; title: string } | null>(null);
  useEffect(() => {
    const moved = () => setPath(location.pathname);
    addEventListener("popstate", moved);
    return () => removeEventListener("popstate", moved);
  }, []);
  const go = (to: string) => {
    history.pushState(null, "", to);
    setPath(to);
  };
  const id = /^\/traces\/([^/]+)$/.exec(path)?.[1];
  if (id) {
    const edit = (next: Draft, from: Run) => {
      setDraft(next);
      setBefore({ run: from, title: `the run before (${from.result.id})` });
      go("/");
    };
    return <TracePage id={decodeURIComponent(id)} edit={edit} compareWith={before && before.run.result.id !== decodeURIComponent(id) ? before : null} />;
  }
  return <Editor draft={draft} notice={notice} done={(newId, sent) => { setDraft(sent); go(`/traces/${encodeURIComponent(newId)}`); }} />;
}

/** A page that stands alone shows the run it holds. */
async function start(): Promise<void> {
  if (!host) return;
  applyTheme();
  const data = document.getElementById("data");
  if (!data) return render(<App />, host);
  const bundle = await readBundle(data.textContent ?? "");
  render(<View run={new Run(bundle.result, bundle.input)} around={{}} />, host);
}

start().catch((error: unknown) => {
  if (host) host.textContent = `This page cannot show the run: ${error instanceof Error ? error.message : String(error)}`;
});
