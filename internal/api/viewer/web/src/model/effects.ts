// What the program reached for outside itself, and the exceptions it raised: both
// are told for the whole run, also where events are missing.
import type { Run } from "./run";
import type { Effect, Raised } from "./types";
import { count, number } from "./words";

/** One effect in words. */
export interface EffectRow {
  what: string;
  name: string;
  /** "" when no error was seen. */
  failure: string;
  times: string;
  place: string;
  /** The step before it, or null when that is not recorded. */
  step: number | null;
}

/** The effects in their order. */
export function effectRows(run: Run): EffectRow[] {
  return (run.result.effects ?? []).map((e) => ({
    what: actionWords(e),
    name: e.name || e.family || "",
    failure: failureWords(e),
    times: e.times > 1 ? `${number(e.times)} times` : "",
    place: e.file ? `${e.file}:${e.line}` : "",
    step: run.stepWith(e.seq),
  }));
}

/** How many effects the list leaves out. */
export function effectsLeftOut(run: Run): number {
  const total = run.result.summary?.effects_total;
  if (!total) return 0;
  const told = (run.result.effects ?? []).reduce((sum, e) => sum + e.times, 0);
  return Math.max(0, total.file + total.socket + total.process - told);
}

/** No error seen does not mean that it went well, so nothing here claims that it did. */
const ACTIONS: Record<string, string> = {
  "file read": "opened to read", "file write": "opened to write", "file append": "opened to append", "file create": "opened to create",
  "file update": "opened to update", "file remove": "removed", "file rename": "renamed", "file mkdir": "made the folder", "file rmdir": "removed the folder",
  "file link": "linked", "file symlink": "linked", "file truncate": "cut off the file", "file list": "listed the folder", "file chmod": "changed the rights of",
  "socket open": "made a socket", "socket connect": "connected to", "socket bind": "listened at", "socket send": "sent to", "socket resolve": "looked up the host",
  "process run": "asked to run", "process shell": "asked a shell to run", "process spawn": "asked to run", "process exec": "asked to become", "process fork": "forked",
};
const ATTEMPTS: Record<string, string> = {
  read: "tried to read", write: "tried to write", append: "tried to append to", create: "tried to make", update: "tried to open", remove: "tried to remove",
  rename: "tried to rename", mkdir: "tried to make the folder", rmdir: "tried to remove the folder", link: "tried to link", symlink: "tried to link", truncate: "tried to cut off",
  list: "tried to list", chmod: "tried to change the rights of", open: "tried to make a socket", connect: "tried to connect to", bind: "tried to listen at",
  send: "tried to send to", resolve: "tried to look up", run: "tried to run", shell: "tried to run in a shell", spawn: "tried to run", exec: "tried to become", fork: "tried to fork",
};

function actionWords(e: Effect): string {
  if (e.failures >= e.times && e.failures > 0) return ATTEMPTS[e.action] ?? `tried to ${e.action}`;
  return ACTIONS[`${e.kind} ${e.action}`] ?? `${e.kind} ${e.action}`;
}

const ERRORS: Record<string, string> = {
  ENOENT: "not found", EACCES: "not allowed", EPERM: "not allowed", EROFS: "read-only", ENOSPC: "no space left", EMFILE: "too many open files",
  EEXIST: "exists already", ENOTDIR: "not a folder", EISDIR: "a folder", ENETUNREACH: "there is no network", EHOSTUNREACH: "there is no network",
  ECONNREFUSED: "refused", EAFNOSUPPORT: "not allowed", EAI_AGAIN: "there is no network", EAI_NONAME: "unknown host", EAGAIN: "not now", ETIMEDOUT: "no answer", EFBIG: "too large",
};

function failureWords(e: Effect): string {
  if (e.error === null) return "";
  const words = ERRORS[e.error];
  const some = e.failures < e.times ? `${count(e.failures, "time")} ` : "";
  return some + (words ? `${words} (${e.error})` : e.error);
}

/** One exception that was raised, or so many that are not listed. */
export interface RaisedRow {
  raised: Raised | null;
  leftOut: number;
  /** The step at which it was raised, or null when that is not recorded. */
  step: number | null;
}

/** The exceptions of the run in their order, from the summary if it has them, else from the events. */
export function raisedRows(run: Run): RaisedRow[] {
  const list = run.result.summary?.exceptions ?? fromEvents(run);
  const rows: RaisedRow[] = [];
  let last = 0;
  for (const raised of list) {
    if (raised.number > last + 1) rows.push({ raised: null, leftOut: raised.number - last - 1, step: null });
    last = raised.number;
    rows.push({ raised, leftOut: 0, step: raisedAt(run, raised) });
  }
  return rows;
}

/** How many exceptions were raised in the whole run. */
export function raisedTotal(run: Run): number {
  const summary = run.result.summary;
  return summary?.exceptions ? summary.exceptions_caught : run.raises().length;
}

function fromEvents(run: Run): Raised[] {
  return run.raises().map((step, i) => {
    const e = run.event(step);
    const frame = run.frameAt(step);
    const { type, message } = e.exception ?? { type: "exception", message: "" };
    return { number: i + 1, type, message, file: frame.path, line: e.line, function: frame.func.name, thread: e.thread, caught: step === run.fatal ? false : null, seq: e.seq - 1 };
  });
}

/** The first event of its thread after seq, if it is the raise. */
function raisedAt(run: Run, raised: Raised): number | null {
  for (let step = run.stepOf(raised.seq); step < run.length; step++) {
    const e = run.event(step);
    if (e.seq <= raised.seq || e.thread !== raised.thread) continue;
    return e.event === "exception" && e.line === raised.line && !run.gapBetween(run.previousInThread(step), step) ? step : null;
  }
  return null;
}
