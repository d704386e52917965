// Reads documents without losing what JavaScript's numbers cannot tell: the
// program's 1.0 and 1 are different values.
import type { Job, Result, Trace, TraceEvent, Value } from "./types";

/**
 * Parses JSON in which every number with a fraction or an exponent becomes
 * ["FLOAT", its text]. Nothing in a Result outside of shown values is such a number.
 */
export function parseKeepingFloats(text: string): unknown {
  return JSON.parse(markFloats(text));
}

function markFloats(text: string): string {
  const parts: string[] = [];
  let from = 0;
  let at = 0;
  while (at < text.length) {
    const c = text.charCodeAt(at);
    if (c === 0x22) {
      at = stringEnd(text, at);
    } else if (c === 0x2d || (c >= 0x30 && c <= 0x39)) {
      const end = numberEnd(text, at);
      const number = text.slice(at, end);
      if (/[.eE]/.test(number)) {
        parts.push(text.slice(from, at), `["FLOAT","${number}"]`);
        from = end;
      }
      at = end;
    } else {
      at++;
    }
  }
  return parts.length === 0 ? text : parts.join("") + text.slice(from);
}

/** The index behind the string that starts at from. */
function stringEnd(text: string, from: number): number {
  let at = from + 1;
  for (;;) {
    const quote = text.indexOf('"', at);
    if (quote < 0) return text.length;
    let slashes = 0;
    while (text.charCodeAt(quote - 1 - slashes) === 0x5c) slashes++;
    if (slashes % 2 === 0) return quote + 1;
    at = quote + 1;
  }
}

function numberEnd(text: string, from: number): number {
  let at = from + 1;
  for (; at < text.length; at++) {
    const c = text.charCodeAt(at);
    const digit = c >= 0x30 && c <= 0x39;
    if (!digit && c !== 0x2e && c !== 0x65 && c !== 0x45 && c !== 0x2b && c !== 0x2d) break;
  }
  return at;
}

/**
 * Turns the text of a Result document into a Result. Names that the program
 * chose become keys of a Map, never of an object: "__proto__" is a name like any other.
 * It throws an Error with a message for people when the text is something else.
 */
export function readResult(text: string): Result {
  return toResult(parseKeepingFloats(text));
}

/** Makes a Result of a parsed document; see readResult. */
export function toResult(document: unknown): Result {
  const result = document as Result;
  if (result === null || typeof result !== "object" || result.schema !== "tracefleet.result/1") {
    throw new Error("This is not a result of the fleet (tracefleet.result/1).");
  }
  if (result.trace) result.trace = toTrace(result.trace);
  return result;
}

function toTrace(raw: Trace): Trace {
  const events = raw.events ?? [];
  for (const event of events) toEvent(event);
  return {
    ...raw,
    events,
    files: raw.files ?? [],
    functions: raw.functions ?? [],
    gaps: raw.gaps ?? [],
    truncation: raw.truncation ?? { events: false, bytes: false, values: 0 },
  };
}

function toEvent(event: TraceEvent): void {
  const raw = event as unknown as { vars?: Record<string, Value>; heap?: Record<string, Value> };
  if (raw.vars) event.vars = new Map(Object.entries(raw.vars));
  if (raw.heap) {
    event.heap = new Map(Object.entries(raw.heap).map(([ref, value]) => [Number(ref), value]));
  }
}

/** What a page that stands alone carries with it. */
export interface Bundle {
  result: Result;
  input: Job | null;
}

/** Reads a Bundle from its text form: the base64 of gzipped JSON. */
export async function readBundle(base64: string): Promise<Bundle> {
  const bytes = Uint8Array.from(atob(base64.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const document = parseKeepingFloats(await new Response(stream).text()) as Bundle;
  return { result: toResult(document.result), input: document.input };
}

/**
 * Reads a file a person chose: a Result document, or a page that stands alone.
 * Errors are for people.
 */
export async function readChosen(text: string): Promise<Bundle> {
  // The brackets keep the tag's own text out of this script, which stands in such a page.
  const data = /<[s]cript id="data"[^>]*>([A-Za-z0-9+/=\s]+)<\/[s]cript>/.exec(text);
  if (data?.[1]) return readBundle(data[1]);
  let document: unknown;
  try {
    document = parseKeepingFloats(text);
  } catch {
    throw new Error("This file is neither a result (JSON) nor a page that was saved from here (HTML).");
  }
  return { result: toResult(document), input: null };
}
