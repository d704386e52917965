// The documents the page works on: a Result (tracefleet.result/1), its trace
// (execution-trace/1) and the Job that was run. Keys are the API's own.

/** A shown value: a JSON scalar, or a list whose first item names its kind. */
export type Value = null | boolean | number | string | Value[];

export type EventKind =
  | "call"
  | "line"
  | "return"
  | "yield"
  | "resume"
  | "throw"
  | "exception"
  | "unwind";

export interface TraceEvent {
  seq: number;
  event: EventKind;
  func: number;
  frame: number;
  line: number;
  depth: number;
  thread: number;
  t: number;
  vars?: Map<string, Value>;
  heap?: Map<number, Value>;
  value?: Value;
  exception?: { type: string; message: string };
  out?: [number, number];
  /** True when variables were not looked at: nothing is known of their changes. */
  unseen?: boolean;
}

export interface TraceFunction {
  id: number;
  name: string;
  file: number;
  line: number;
  kind: string;
  args: string[];
}

export interface Gap {
  after_seq: number;
  skipped: number;
  cause: string;
}

export interface Trace {
  schema: string;
  files: { id: number; path: string; lines: number }[];
  functions: TraceFunction[];
  events: TraceEvent[];
  gaps: Gap[];
  truncation: { events: boolean; bytes: boolean; values: number };
  /** What the program did to the world around it, where the tracer reports it. */
  effects?: unknown;
}

export interface TracebackFrame {
  file: string;
  line: number;
  function: string;
  source: string;
  library?: boolean;
}

export interface ProgramException {
  type: string;
  message: string;
  file: string;
  line: number;
  column: number | null;
  function: string;
  traceback: TracebackFrame[];
  cause: ProgramException | null;
  context: ProgramException | null;
  group: (ProgramException | null)[];
}

export interface Summary {
  total_calls: number;
  total_lines: number;
  lines: Record<string, Record<string, number>> | null;
  calls: Record<string, number> | null;
  loops: { file: string; line: number; iterations: number }[] | null;
  events_total: number;
  events_kept: number;
  counts_exact: boolean;
  effects?: unknown;
}

/** The limits of a run, in the units of their names. */
export interface Limits {
  wall_ms: number;
  cpu_ms: number;
  memory_bytes: number;
  output_bytes: number;
  processes: number;
  open_files: number;
  file_bytes: number;
  trace_events: number;
  trace_bytes: number;
}

export interface Result {
  schema: string;
  id: string;
  status: string;
  headline: string;
  error: string | null;
  returncode: number | null;
  signal: string | null;
  limits_hit: string[] | null;
  stdout: string;
  stderr: string;
  stdout_bytes: number;
  stderr_bytes: number;
  stdout_truncated: boolean;
  stderr_truncated: boolean;
  encoding: string;
  exception: ProgramException | null;
  summary: Summary | null;
  usage: {
    wall_ms: number;
    cpu_ms: number;
    max_memory_bytes: number;
    max_processes: number;
    queue_ms: number;
    startup_ms: number;
  };
  limits: Limits;
  runtime: { language: string; version: string; engine: string; oci_runtime: string };
  trace: Trace | null;
  tracer: { trust: string; complete: boolean; detached: boolean; notes: string[] | null };
  worker: string;
  attempt: number;
  enqueued_at: string;
  started_at: string | null;
  finished_at: string;
  effects?: unknown;
}

/** The input of a job, as far as the page uses it. */
export interface Job {
  entrypoint: string;
  files: Record<string, string>;
  stdin: string;
  args: string[];
  limits?: Partial<Limits>;
  trace?: { mode?: string; values?: boolean; include?: string[] };
  name?: string;
}
