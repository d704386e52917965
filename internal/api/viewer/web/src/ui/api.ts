// The HTTP API as the page uses it. Cookies go along; nothing is sent elsewhere.
import { toResult, parseKeepingFloats } from "../model/parse";
import type { Job, Limits, Result } from "../model/types";

const BASE = "/api/v1";

/** What the API says of a job. */
export interface Answer {
  id: string;
  state: string;
  result: Result | null;
}

/** An answer that says no: a problem document (RFC 9457), or a broken connection. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly fields: { location: string; message: string }[] = [],
  ) {
    super(message);
  }
}

async function request(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(BASE + path, { ...init, credentials: "same-origin", headers: { Accept: "application/json", ...init.headers } });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError("The server does not answer.", 0);
  }
  if (response.ok) return response;
  throw await problem(response);
}

async function problem(response: Response): Promise<ApiError> {
  let document: { title?: string; detail?: string; errors?: { location?: string; message?: string }[] | null } = {};
  try {
    document = (await response.json()) as typeof document;
  } catch {
    // Something between here and the server answered; its status says enough.
  }
  const texts: Record<number, string> = {
    401: "You are not signed in.",
    404: "There is no such run: it was never submitted here, or its retention is over.",
    410: "This run is no longer kept.",
    429: "Too many requests, or the queue is full. Try again in a moment.",
    503: "The fleet cannot take this now. Try again in a moment.",
  };
  const message = document.detail || texts[response.status] || document.title || `The server answered ${response.status}.`;
  const fields = (document.errors ?? []).map((e) => ({ location: String(e.location ?? ""), message: String(e.message ?? "") }));
  return new ApiError(message, response.status, fields);
}

function toAnswer(text: string, id: string): Answer {
  const document = parseKeepingFloats(text) as Record<string, unknown>;
  if (document["schema"] === "tracefleet.result/1") return { id, state: "finished", result: toResult(document) };
  const result = document["result"];
  return {
    id: typeof document["id"] === "string" ? document["id"] : id,
    state: typeof document["state"] === "string" ? document["state"] : "",
    result: result ? toResult(result) : null,
  };
}

/** Submits a program and gives its id. */
export async function submit(job: object): Promise<string> {
  const response = await request("/traces", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(job) });
  const answer = toAnswer(await response.text(), "");
  const id = answer.id || answer.result?.id || response.headers.get("Location")?.split("/").pop();
  if (!id) throw new ApiError("The server's answer has no id.", 0);
  return id;
}

/** Asks for a job, waiting at most so many seconds for its end. */
export async function get(id: string, waitSeconds: number, signal?: AbortSignal): Promise<Answer> {
  const query = waitSeconds > 0 ? `?wait=${waitSeconds}s` : "";
  const response = await request(`/traces/${encodeURIComponent(id)}${query}`, signal ? { signal } : {});
  return toAnswer(await response.text(), id);
}

/** The input of a job; null when it is no longer kept. */
export async function input(id: string, signal?: AbortSignal): Promise<Job | null> {
  try {
    const response = await request(`/traces/${encodeURIComponent(id)}/input`, signal ? { signal } : {});
    return (await response.json()) as Job;
  } catch (error) {
    if (error instanceof ApiError && (error.status === 404 || error.status === 410)) return null;
    throw error;
  }
}

/** A job's result and input. */
export async function fetchTrace(id: string): Promise<{ result: Result | null; input: Job | null }> {
  const [answer, job] = await Promise.all([get(id, 0), input(id)]);
  return { result: answer.result, input: job };
}

/** Cancels a job; no error when it has ended. */
export async function cancel(id: string): Promise<void> {
  await request(`/traces/${encodeURIComponent(id)}`, { method: "DELETE" });
}

/**
 * Follows a job by server-sent events. A browser that cannot keep the stream
 * open loses nothing but the news: the result is waited for beside it.
 */
export function follow(id: string, news: (state: string) => void): () => void {
  const source = new EventSource(`${BASE}/traces/${encodeURIComponent(id)}/events`);
  for (const state of ["queued", "started", "finished"]) source.addEventListener(state, () => news(state));
  source.addEventListener("finished", () => source.close());
  return () => source.close();
}

/** The limits that the server allows; null when it does not say. */
export async function limits(): Promise<Partial<Record<"default" | "minimum" | "maximum", Partial<Limits>>> | null> {
  try {
    const document = (await (await request("/limits")).json()) as Record<string, Partial<Limits>>;
    const pick = (name: string) => document[name];
    const found: Partial<Record<"default" | "minimum" | "maximum", Partial<Limits>>> = {};
    for (const key of ["default", "minimum", "maximum"] as const) {
      const value = pick(key);
      if (value) found[key] = value;
    }
    return found;
  } catch {
    return null;
  }
}

