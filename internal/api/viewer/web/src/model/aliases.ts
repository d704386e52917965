// Who holds which object at a step.
import { functionName, type Run } from "./run";
import { isDeleted, refOf, word } from "./text";
import type { Value } from "./types";

/** An object at a step, and the names that lead to it. */
export interface Held {
  ref: number;
  entry: Value[];
  /** "b", "total in add", "self.items": every variable or slot that is this very object. */
  names: string[];
  changed: boolean;
}

/** One slot of an object: its label ("[0]", ".size", "'tea'") and its value. */
export interface Slot {
  label: string;
  value: Value;
}

/** The objects that the call stack's variables lead to, nearest first, at most limit. */
export function heldObjects(run: Run, step: number, limit: number): Map<number, Held> {
  const held = new Map<number, Held>();
  const heap = run.event(step).heap;
  const waiting: Held[] = [];
  const meet = (value: Value | undefined, name: string) => {
    const ref = refOf(value);
    if (ref === 0) return;
    let object = held.get(ref);
    if (!object) {
      const entry = run.objectChange(ref, step)?.value;
      if (!Array.isArray(entry) || held.size >= limit) return;
      object = { ref, entry, names: [], changed: heap?.has(ref) ?? false };
      held.set(ref, object);
      waiting.push(object);
    }
    if (object.names.length < 12 && !object.names.includes(name)) object.names.push(name);
  };
  const stack = run.stack(step);
  const module = stack[0] && run.moduleOf(stack[0], step);
  if (module && !stack.includes(module)) stack.splice(1, 0, module);
  stack.forEach((frame, depth) => {
    const where = frame.func.kind === "module" ? frame.path : functionName(frame.func);
    for (const [name, value] of run.variables(frame, step)) {
      if (!isDeleted(value)) meet(value, depth === 0 ? name : `${name} in ${where}`);
    }
  });
  for (let i = 0; i < waiting.length; i++) {
    const object = waiting[i];
    if (!object) continue;
    const base = (object.names[0] ?? `◆${object.ref}`).split(" in ")[0] ?? "";
    for (const slot of slots(object.entry)) meet(slot.value, base + (slot.label.startsWith(".") || slot.label.startsWith("[") ? slot.label : `[${slot.label}]`));
  }
  return held;
}

/** What an object's entry holds, slot by slot. */
export function slots(entry: Value[]): Slot[] {
  switch (entry[0]) {
    case "LIST":
    case "TUPLE":
      return entry.slice(1).map((value, i) => ({ label: elided(value) ? "…" : `[${i}]`, value }));
    case "SET":
    case "FROZENSET":
      return entry.slice(1).map((value) => ({ label: elided(value) ? "…" : "·", value }));
    case "DICT":
      return entry.slice(1).map((pair) => pairSlot(pair, (key) => keyLabel(key)));
    case "INSTANCE":
      return entry.slice(2).map((pair) => pairSlot(pair, (key) => "." + word(key)));
    case "CLASS":
      return entry.slice(3).map((pair) => pairSlot(pair, (key) => "." + word(key)));
  }
  return [];
}

function pairSlot(pair: Value | undefined, label: (key: Value) => string): Slot {
  if (!Array.isArray(pair) || pair.length !== 2 || elided(pair)) return { label: "…", value: pair ?? null };
  return { label: label(pair[0] ?? null), value: pair[1] ?? null };
}

function keyLabel(key: Value): string {
  if (typeof key === "string") return JSON.stringify(key);
  return refOf(key) > 0 ? `◆${refOf(key)}` : Array.isArray(key) ? key.slice(1).map(word).join(" ") : String(key);
}

function elided(value: Value | undefined): boolean {
  return Array.isArray(value) && value[0] === "ELIDED";
}

/** What kind of object an entry is, in Python's words. */
export function kindOf(entry: Value[]): string {
  switch (entry[0]) {
    case "LIST":
    case "TUPLE":
    case "SET":
    case "DICT":
      return entry[0].toLowerCase();
    case "CLASS":
      return `class ${word(entry[1])}`;
    case "INSTANCE":
    case "INSTANCE_PPRINT":
      return word(entry[1]);
  }
  return word(entry[0]).toLowerCase();
}
