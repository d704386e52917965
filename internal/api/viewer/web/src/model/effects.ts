// What the program did to the world around it: files, network, other programs.
import type { Run } from "./run";
import { word } from "./text";
import type { Value } from "./types";

/** One effect in words, and the step at which it happened if the trace says so. */
export interface Effect {
  text: string;
  step: number | null;
}

/**
 * The effects that a result reports, in its order. Readers ignore what they do not know, so an
 * item may be a list of words, or an object; one that has the number of an event leads to it.
 */
export function effectsOf(run: Run): Effect[] {
  const { result } = run;
  const places: unknown[] = [result.trace?.effects, result.summary?.effects, result.effects];
  const list = places.find((place) => Array.isArray(place)) as unknown[] | undefined;
  return (list ?? []).map((item) => {
    if (Array.isArray(item)) return { text: item.map((part) => word(part as Value)).join(" "), step: null };
    if (item === null || typeof item !== "object") return { text: String(item), step: null };
    const fields = new Map(Object.entries(item as Record<string, Value>));
    const seq = fields.get("seq");
    fields.delete("seq");
    const step = typeof seq === "number" && run.length > 0 ? run.stepOf(seq) : null;
    return { text: [...fields.values()].filter((v) => v !== null).map(word).join(" "), step };
  });
}
