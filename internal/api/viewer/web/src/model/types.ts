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
  exceptions_caught: number;
  /** The first and the last of the exceptions raised; results of older workers have none of these. */
  exceptions?: Raised[];
  thread_exceptions?: ThreadException[];
  thread_exceptions_total?: number;
  warnings?: number;
  unraisable?: number;
  effects_total?: { file: number; socket: number; process: number };
}

/** An exception that was raised in user code, or came into it. */
export interface Raised {
  number: number;
  type: string;
  message: string;
  file: string;
  line: number;
  function: string;
  thread: number;
  /** Null when the run ended before that was known. */
  caught: boolean | null;
  /** The number of the last event before it. */
  seq: number;
}

/** An exception that ended a thread other than the main one. */
export interface ThreadException {
  thread: number;
  type: string;
  message: string;
  file: string;
  line: number;
  function: string;
}

/** Something outside itself that the program reached for. */
export interface Effect {
  kind: string;
  action: string;
  name: string;
  family?: string;
  error: string | null;
  times: number;
  failures: number;
  file: string;
  line: number;
  function: string;
  thread: number;
  seq: number;
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
  effects?: Effect[] | null;
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
