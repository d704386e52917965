// Runs made by hand, and those recorded.
import { parseKeepingFloats, readResult, toResult } from "../model/parse";
import { Run } from "../model/run";
import { Syntax } from "../model/syntax";
import type { Gap, Job, Result } from "../model/types";

type Line = [event: string, frame: number, line: number, more?: Record<string, unknown>];

/** Makes a run: functions are numbered from 1 as given, a frame's function is its number's. */
export function madeRun(source: string, functions: { name: string; args?: string[] }[], lines: Line[], more: Partial<Result> = {}, gaps: Gap[] = []): Run {
  const depth = new Map<number, number>();
  const stack: number[] = [];
  const events = lines.map(([event, frame, line, extra], i) => {
    if (event === "call") stack.push(frame);
    if (!depth.has(frame)) depth.set(frame, stack.length);
    if (event === "return" || event === "unwind") stack.pop();
    return { seq: i + 1, event, func: frame, frame, line, depth: depth.get(frame), thread: 1, t: i, ...extra };
  });
  const result = {
    schema: "tracefleet.result/1", id: "made", status: "ok", exception: null, stdout: "", stderr: "", stdout_bytes: 0, stderr_bytes: 0,
    limits_hit: [], tracer: { trust: "in-process", complete: true, detached: false, notes: [] }, summary: null, ...more,
    trace: {
      schema: "execution-trace/1", files: [{ id: 1, path: "main.py", lines: 1 }],
      functions: functions.map((f, i) => ({ id: i + 1, name: f.name, file: 1, line: 1, kind: f.name === "<module>" ? "module" : "function", args: f.args ?? [] })),
      events, gaps, truncation: { events: false, bytes: false, values: 0 },
    },
  };
  const input: Job = { entrypoint: "main.py", files: { "main.py": source }, stdin: "", args: [] };
  return new Run(readResult(JSON.stringify(result)), input);
}

/** Loads a recorded run by its name. */
export async function recorded(name: string): Promise<Run> {
  const text = await (await fetch(`/fixtures/${name}.json`)).text();
  const { files, result } = parseKeepingFloats(text) as { files: Record<string, string>; result: unknown };
  return new Run(toResult(result), { entrypoint: Object.keys(files)[0] ?? "main.py", files, stdin: "", args: [] });
}

/** The syntax of a run's files. */
export function syntaxOf(run: Run): (path: string) => Syntax | undefined {
  const known = new Map<string, Syntax>();
  return (path) => {
    const lines = run.sources.get(path);
    if (!lines) return undefined;
    const syntax = known.get(path) ?? new Syntax(lines.join("\n"));
    known.set(path, syntax);
    return syntax;
  };
}
