// How a run is spoken of. The sentences are those of the text view
// (internal/render), so that a person reads the same words everywhere.
import type { GapMark } from "./run";
import type { ProgramException, Result } from "./types";

/** Writes a number with commas between thousands. */
export function number(n: number): string {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Writes a number with its noun, which gets an "s" unless n is 1. */
export function count(n: number, noun: string): string {
  if (n === 1) return "1 " + noun;
  return number(n) + " " + noun + (noun.endsWith("s") ? "es" : "s");
}

/** Writes a number of bytes for people. */
export function size(n: number): string {
  const units: [number, number, string][] = [
    [2 ** 30, 2 ** 30, "GiB"],
    [2 ** 20, 2 ** 20, "MiB"],
    [10 * 2 ** 10, 2 ** 10, "KiB"],
  ];
  for (const [from, unit, name] of units) if (n >= from) return (n / unit).toFixed(1).replace(/\.0$/, "") + " " + name;
  return count(n, "byte");
}

/** Writes a number of milliseconds for people. */
export function millis(ms: number): string {
  if (ms < 1000) return `${ms} ms`;
  if (ms < 60_000) return (ms / 1000).toFixed(2).replace(/0+$/, "").replace(/\.$/, "") + " s";
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}

/** The exception as the last line of a Python traceback has it. */
export function exceptionLine(e: { type: string; message: string }): string {
  return e.message === "" ? e.type : `${e.type}: ${e.message}`;
}

function exceptionWords(e: ProgramException | null): string {
  if (!e) return "an exception that the tracer could not read.";
  let text = exceptionLine(e);
  if (e.file !== "" && e.line > 0) {
    const inside = (e.function !== "" && e.function !== "<module>") || e.traceback.length > 0;
    text += ` (${e.file}:${e.line}${inside ? ` in ${e.function}` : ""})`;
  }
  return text;
}

/** One sentence that says how the program ended. It may hold text from the program. */
export function verdict(r: Result): string {
  const more = r.error ? " " + r.error : "";
  switch (r.status) {
    case "ok":
      return "Finished normally.";
    case "exit_nonzero":
      return `Exited with code ${r.returncode ?? 0}.`;
    case "exception":
      return "Ended by " + exceptionWords(r.exception);
    case "syntax_error":
      return "Does not compile, so nothing ran: " + exceptionWords(r.exception);
    case "signaled":
      return `Killed by the signal ${r.signal ?? ""}.`;
    case "time_limit":
    case "memory_limit":
    case "output_limit":
      return limitVerdict(r);
    case "result_invalid":
      return "The sandbox gave no usable answer; the program may have broken it." + more;
    case "canceled":
      return "Canceled." + more;
    case "rejected":
      return "Refused by the worker." + more;
    case "system_error":
      return "The fleet failed, not the program." + more;
  }
  return `Ended with the status ${r.status}.`;
}

function limitVerdict(r: Result): string {
  const hit = r.limits_hit ?? [];
  if (r.status === "memory_limit") return `Stopped: it needed more memory than its limit of ${size(r.limits.memory_bytes)}.`;
  if (r.status === "output_limit") {
    const stream = hit.includes("stderr") ? "stderr" : "stdout";
    return `Stopped: it wrote more than its limit of ${count(r.limits.output_bytes, "byte")} to ${stream}.`;
  }
  if (hit.includes("cpu") && !hit.includes("wall")) {
    return `Stopped: it used up its limit of ${millis(r.limits.cpu_ms)} of CPU time.`;
  }
  return `Stopped: it was still running after ${millis(r.limits.wall_ms)}, its time limit.`;
}

/** The exceptions that ended threads, in words; the program itself survives them. */
export function threadWords(r: Result): string[] {
  const deaths = r.summary?.thread_exceptions ?? [];
  const words = deaths.map((e) => `thread ${e.thread}: ${exceptionLine(e)}${e.file ? ` (${e.file}:${e.line} in ${e.function})` : ""}`);
  const more = (r.summary?.thread_exceptions_total ?? 0) - deaths.length;
  return more > 0 ? [...words, `${count(more, "more thread")}`] : words;
}

/** The numbers of the run, in words. */
export function facts(r: Result): string[] {
  const list = [r.status];
  if (r.returncode !== null) list.push(`exit code ${r.returncode}`);
  if (r.started_at !== null) list.push(millis(r.usage.wall_ms), millis(r.usage.cpu_ms) + " CPU");
  if (r.usage.max_memory_bytes > 0) list.push(size(r.usage.max_memory_bytes));
  if (r.usage.max_processes > 1) list.push(`${number(r.usage.max_processes)} processes and threads`);
  if (r.runtime.version !== "") list.push("Python " + r.runtime.version);
  return list;
}

/** What the reader should know about the result itself. */
export function notes(r: Result): string[] {
  const list = (r.limits_hit ?? []).map((hit) => hitWords(hit, r)).filter((text) => text !== "");
  if (r.summary || r.trace) {
    if (r.tracer.detached) {
      list.push("The program switched the tracer off; what it did afterwards is not in the trace.");
    } else if (!r.tracer.complete) {
      list.push("The program did not end in the interpreter's own way, so the trace stops where it was then.");
    }
  }
  const { warnings = 0, unraisable = 0 } = r.summary ?? {};
  if (warnings > 0) list.push(`${warnings === 1 ? "1 warning was" : `${count(warnings, "warning")} were`} issued.`);
  if (unraisable > 0) list.push(`${count(unraisable, "exception")} had nobody to go to, as from __del__.`);
  if (r.encoding === "utf-8-lossy") list.push("The output is not all UTF-8; bytes that are not are shown as \ufffd.");
  const shortened = r.trace?.truncation.values ?? 0;
  if (shortened > 0) list.push(`${count(shortened, "value")} ${shortened === 1 ? "is" : "are"} shown shortened.`);
  return [...list, ...(r.tracer.notes ?? [])];
}

/** Explains a limit that the verdict does not speak of already. */
function hitWords(hit: string, r: Result): string {
  switch (hit) {
    case "memory":
      if (r.status === "memory_limit") return "";
      return `A process of the program was killed for memory (limit ${size(r.limits.memory_bytes)}).`;
    case "processes":
      return `The program wanted more than its limit of ${count(r.limits.processes, "process")}.`;
    case "open_files":
      return `The program wanted more than its limit of ${count(r.limits.open_files, "open file")}.`;
    case "file_size":
      return `The program wanted a file larger than its limit of ${size(r.limits.file_bytes)}.`;
    case "disk":
      return "The program filled its disk space.";
    case "inodes":
      return "The program made as many files as it may.";
  }
  return "";
}

/** Says that events are missing, and why. */
export function gapWords(gap: GapMark, r: Result): string {
  let many = "more events were";
  if (gap.skipped >= 0) many = `${count(gap.skipped, "more event")} ${gap.skipped === 1 ? "was" : "were"}`;
  const text = `${many} not recorded`;
  switch (gap.cause) {
    case "event_limit":
      return `${text}: the trace is limited to ${count(r.limits.trace_events, "event")}`;
    case "byte_limit":
      return `${text}: the trace is limited to ${size(r.limits.trace_bytes)}`;
    case "time_limit":
      return `${text}: recording had used its share of the time limit`;
    case "corrupt":
      return `the trace is damaged here; ${text}`;
  }
  return text;
}
