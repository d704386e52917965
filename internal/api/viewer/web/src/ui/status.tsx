// A run that has been sent: where it stands, until its result is there.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Draft } from "./editor";
import { draftOf, Problem, Top } from "./editor";
import { Run } from "../model/run";
import { ApiError, cancel, follow, get, input } from "./api";
import { View } from "./view";

const WAIT_SECONDS = 25;
const PATIENCE_MS = 5 * 60_000;

export function TracePage(props: { id: string; edit: (draft: Draft, from: Run) => void; compareWith: { run: Run; title: string } | null }) {
  const [run, setRun] = useState<Run | null>(null);
  const [state, setState] = useState("");
  const [problem, setProblem] = useState<ApiError | null>(null);
  useEffect(() => {
    document.title = "Waiting for a run · Tracefleet";
    setRun(null);
    setProblem(null);
    setState("");
    return load(props.id, setRun, setState, setProblem);
  }, [props.id]);
  if (run) {
    const job = run.input;
    const around = { other: props.compareWith, edit: () => props.edit(job ? draftOf(job) : { ...draftOf({ entrypoint: "main.py", files: { "main.py": "" }, stdin: "", args: [] }) }, run) };
    return <View run={run} around={around} />;
  }
  return (
    <div class="waiting-page">
    <Top />
    <main class="waiting" id="main">
      {problem ? (
        <>
          <Problem problem={problem} />
          <p><a href="/">Trace a program</a></p>
        </>
      ) : (
        <Waiting id={props.id} state={state} />
      )}
    </main>
    </div>
  );
}

/** Loads a run, waiting for its end; gives the function that gives up. */
function load(id: string, setRun: (run: Run) => void, setState: (state: string) => void, setProblem: (problem: ApiError) => void): () => void {
  const stop = new AbortController();
  let unfollow = () => {};
  const go = async () => {
    const job = input(id, stop.signal);
    job.catch(() => {}); // It is awaited below, or no longer of interest.
    let answer = await get(id, 0, stop.signal);
    const until = Date.now() + PATIENCE_MS;
    let failures = 0;
    if (!answer.result) {
      setState(answer.state);
      unfollow = follow(id, (news) => setState(news === "started" ? "running" : news));
    }
    while (!answer.result) {
      const began = Date.now();
      try {
        answer = await get(id, WAIT_SECONDS, stop.signal);
        failures = 0;
        if (!answer.result) setState(answer.state);
      } catch (error) {
        const passing = error instanceof ApiError && (error.status === 0 || error.status === 429 || error.status >= 500);
        if (stop.signal.aborted || !passing || Date.now() > until) throw error;
        failures++;
      }
      // A server with too many waiters answers at once: it must not be asked in a tight loop.
      if (!answer.result) await pause(Math.max(0, 1000 * 2 ** Math.min(failures, 4) - (Date.now() - began)), stop.signal);
    }
    const source = await job;
    if (!stop.signal.aborted) setRun(new Run(answer.result, source));
  };
  go().catch((error: unknown) => {
    if (!stop.signal.aborted) setProblem(error instanceof ApiError ? error : new ApiError(String(error instanceof Error ? error.message : error), 0));
  }).finally(() => unfollow());
  return () => {
    stop.abort();
    unfollow();
  };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

const WORDS: Record<string, string> = {
  "": "Looking for the run…",
  queued: "Queued: waiting for a worker.",
  running: "Running in its sandbox…",
  finished: "Finished. Loading the trace…",
  canceled: "Canceled. Loading what there is…",
};

function Waiting({ id, state }: { id: string; state: string }) {
  const began = useRef(Date.now());
  const [seconds, setSeconds] = useState(0);
  const [note, setNote] = useState("");
  useEffect(() => {
    const timer = setInterval(() => setSeconds(Math.round((Date.now() - began.current) / 1000)), 1000);
    return () => clearInterval(timer);
  }, []);
  const stop = () => {
    setNote("Stopping it…");
    cancel(id).catch((error: unknown) => setNote(error instanceof Error ? error.message : "It could not be canceled."));
  };
  const steps = ["queued", "running", "finished"];
  const at = steps.indexOf(state);
  return (
    <>
      <ol class="progress" aria-hidden="true">
        {steps.map((s, i) => <li key={s} class={i < at ? "done" : i === at ? "now" : ""}>{s}</li>)}
      </ol>
      <p role="status" class="state">{WORDS[state] ?? state}</p>
      <p class="quiet mono">{id}{seconds >= 2 ? `, ${seconds} s` : ""}</p>
      {state === "queued" && seconds > 10 && <p class="quiet">Nothing has picked it up yet. Is a worker running?</p>}
      {(state === "queued" || state === "running") && <p><button type="button" class="button" onClick={stop}>Cancel</button> <span class="quiet">{note}</span></p>}
    </>
  );
}
