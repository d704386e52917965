// Writes shown values as Python would print them. The rules are those of the
// text view (internal/trace, text.go), and a test holds the two together.
import type { Value } from "./types";

/** The shown objects at one moment, by reference number. */
export interface Objects {
  get(ref: number): Value | undefined;
}

const TEXT_DEPTH = 3;
const TEXT_FLOOR = -4;

/**
 * Writes a value on one line in at most limit characters; what does not fit is
 * replaced by "…". The text holds no control characters, whatever the value holds.
 */
export function valueText(value: Value | undefined, objects: Objects, limit: number): string {
  const writer = new Writer(objects, limit);
  writer.value(value ?? null, TEXT_DEPTH);
  if (!writer.full) return writer.out;
  return [...writer.out].slice(0, Math.max(0, limit - 1)).join("") + "…";
}

/** The reference number if the value is a reference, else 0. */
export function refOf(value: Value | undefined): number {
  return Array.isArray(value) && value.length === 2 && value[0] === "REF" && typeof value[1] === "number"
    ? value[1]
    : 0;
}

/** Tells whether the value says that its variable was deleted. */
export function isDeleted(value: Value | undefined): boolean {
  return Array.isArray(value) && value.length === 1 && value[0] === "DEL";
}

/** Calls visit for every reference number in a value or heap entry, not following references. */
export function eachRef(value: Value | undefined, visit: (ref: number) => void): void {
  if (!Array.isArray(value)) return;
  const ref = refOf(value);
  if (ref > 0) visit(ref);
  else for (const item of value) eachRef(item, visit);
}

/** Tells whether value is or holds, a few levels down, the object ref. */
export function reaches(value: Value | undefined, ref: number, objects: Objects): boolean {
  const seen = new Set<number>();
  const walk = (v: Value | undefined, depth: number): boolean => {
    if (depth === 0 || !Array.isArray(v)) return false;
    const n = refOf(v);
    if (n === 0) return v.some((item) => walk(item, depth - 1));
    if (n === ref) return true;
    if (seen.has(n)) return false;
    seen.add(n);
    return walk(objects.get(n), depth - 1);
  };
  return walk(value, 2 * TEXT_DEPTH);
}

/** Plain text of one part of an encoded value: a string as it is, else as JSON. */
export function word(value: Value | undefined): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

const UNPRINTABLE = /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/u;
const UNPRINTABLE_ALL = /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu;

function escapeCharacter(c: string): string {
  const n = c.codePointAt(0) ?? 0;
  if (n < 0x100) return "\\x" + n.toString(16).padStart(2, "0");
  if (n < 0x10000) return "\\u" + n.toString(16).padStart(4, "0");
  return "\\U" + n.toString(16).padStart(8, "0");
}

/** Replaces what cannot be printed by its Python escape. */
export function clean(text: string): string {
  return UNPRINTABLE.test(text) ? text.replace(UNPRINTABLE_ALL, escapeCharacter) : text;
}

/**
 * Makes a program's text visible for people where line ends and tabs are to
 * stay: other control characters and direction overrides become symbols or escapes.
 */
export function visible(text: string): string {
  return text.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} \t\n\u200c\u200d]/gu, (c) => {
    const n = c.codePointAt(0) ?? 0;
    if (n < 0x20) return String.fromCodePoint(0x2400 + n);
    return n === 0x7f ? "␡" : escapeCharacter(c);
  });
}

/** The same for one line: line ends and tabs are made visible too. */
export function visibleLine(text: string): string {
  return visible(text.replaceAll("\t", "    ").replaceAll("\n", "␊"));
}

/** Writes text as a Python string literal, the way repr does. */
export function pythonString(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  let out = quote;
  for (const c of text) {
    if (c === quote || c === "\\") out += "\\" + c;
    else if (c === "\n") out += "\\n";
    else if (c === "\r") out += "\\r";
    else if (c === "\t") out += "\\t";
    else out += clean(c);
  }
  return out + quote;
}

function pythonBytes(bytes: number[]): string {
  const quote = bytes.includes(0x27) && !bytes.includes(0x22) ? '"' : "'";
  let out = "b" + quote;
  for (const n of bytes) {
    const c = String.fromCharCode(n);
    if (c === quote || c === "\\") out += "\\" + c;
    else if (c === "\n") out += "\\n";
    else if (c === "\r") out += "\\r";
    else if (c === "\t") out += "\\t";
    else if (n < 0x20 || n > 0x7e) out += "\\x" + n.toString(16).padStart(2, "0");
    else out += c;
  }
  return out + quote;
}

/**
 * Builds one text within a budget of characters. Once it is spent every
 * further write is dropped, so a huge value costs no more than a small one.
 */
class Writer {
  out = "";
  full = false;
  private open: number[] = [];

  constructor(
    private objects: Objects,
    private left: number,
  ) {}

  private write(text: string): void {
    if (this.full) return;
    const characters = [...clean(text)];
    if (characters.length <= this.left) {
      this.left -= characters.length;
      this.out += characters.join("");
      return;
    }
    this.full = true;
    this.out += characters.slice(0, this.left).join("");
  }

  value(value: Value, depth: number): void {
    if (this.full) return;
    if (depth < TEXT_FLOOR) this.write("…");
    else if (value === null) this.write("None");
    else if (value === true) this.write("True");
    else if (value === false) this.write("False");
    else if (typeof value === "string") this.write(pythonString(value));
    else if (typeof value === "number") this.write(String(value));
    else if (Array.isArray(value) && typeof value[0] === "string" && value[0] !== "") this.tagged(value, depth);
    else this.write("<?>");
  }

  private tagged(items: Value[], depth: number): void {
    const tag = items[0] as string;
    const rest = items.slice(1);
    switch (tag) {
      case "REF":
        return this.reference(items, depth);
      case "LIST":
        return this.sequence("[", rest, "]", depth);
      case "TUPLE":
        return this.sequence("(", rest, rest.length === 1 ? ",)" : ")", depth);
      case "SET":
      case "FROZENSET":
        return this.set(tag, rest, depth);
      case "DICT":
        this.write("{");
        this.pairs(rest, ": ", depth, (key) => this.value(key, depth - 1));
        return this.write("}");
      case "INSTANCE":
        return this.instance(rest, depth);
      case "INSTANCE_PPRINT":
        return this.write(word(rest[1]));
      case "CLASS":
        return this.write(`<class ${word(rest[0])}>`);
      case "FUNCTION":
        return this.write(`<function ${word(rest[0])}>`);
      case "MODULE":
      case "module":
        return this.write(`<module ${word(rest[0])}`.trimEnd() + ">");
      case "DEL":
        return this.write("(deleted)");
      default:
        return this.scalar(tag, rest);
    }
  }

  private scalar(tag: string, rest: Value[]): void {
    switch (tag) {
      case "FLOAT":
        return this.write(word(rest[0]));
      case "SPECIAL_FLOAT":
        return this.write({ Infinity: "inf", "-Infinity": "-inf", NaN: "nan" }[word(rest[0])] ?? "");
      case "STR":
        this.write(pythonString(word(rest[0])));
        return this.write(`… (${word(rest[1])} characters)`);
      case "BYTES":
        return this.bytes(rest);
      case "BIGINT":
        return this.write(typeof rest[0] === "string" ? rest[0] : `<int of ${word(rest[0])} bits>`);
      case "ELIDED":
        return this.write(`… ${word(rest[0])} more`);
      case "HEAP_PRIMITIVE":
        return this.write(word(rest[1]));
      case "IMPORTED_FAUX_PRIMITIVE":
        return this.write(`<${word(rest[0])}>`);
      default:
        return this.write(`<${[tag, ...rest.map(word)].join(" ")}>`);
    }
  }

  private reference(items: Value[], depth: number): void {
    const ref = refOf(items);
    const entry = this.objects.get(ref);
    if (!Array.isArray(entry) || entry.length === 0 || entry[0] === "REF") return this.write("…");
    const again = this.open.includes(ref);
    if (again || (depth <= 0 && entry.length > 1)) {
      const short = shortForm(entry);
      if (short !== "") return this.write(short);
    }
    if (again) return this.write("…");
    this.open.push(ref);
    this.tagged(entry, depth);
    this.open.pop();
  }

  private sequence(opening: string, items: Value[], closing: string, depth: number): void {
    this.write(opening);
    items.forEach((item, i) => {
      if (this.full) return;
      if (i > 0) this.write(", ");
      this.value(item, depth - 1);
    });
    this.write(closing);
  }

  private set(tag: string, items: Value[], depth: number): void {
    if (items.length === 0) return this.write(tag.toLowerCase() + "()");
    if (tag === "FROZENSET") return this.sequence("frozenset({", items, "})", depth);
    return this.sequence("{", items, "}", depth);
  }

  /** Writes [key, value] items; an item of another form (ELIDED) is written as a value. */
  private pairs(items: Value[], between: string, depth: number, writeKey: (key: Value) => void): void {
    items.forEach((item, i) => {
      if (this.full) return;
      if (i > 0) this.write(", ");
      if (!Array.isArray(item) || item.length !== 2 || item[0] === "ELIDED") return this.value(item, depth - 1);
      writeKey(item[0] ?? null);
      this.write(between);
      this.value(item[1] ?? null, depth - 1);
    });
  }

  private instance(rest: Value[], depth: number): void {
    this.write("<" + word(rest[0]));
    if (rest.length > 1) {
      this.write(" ");
      this.pairs(rest.slice(1), "=", depth, (name) => this.write(typeof name === "string" ? name : ""));
    }
    this.write(">");
  }

  private bytes(rest: Value[]): void {
    const hex = word(rest[0]);
    if (!/^([0-9a-fA-F]{2})*$/.test(hex)) return this.write("<bytes>");
    const bytes = (hex.match(/../g) ?? []).map((pair) => parseInt(pair, 16));
    this.write(pythonBytes(bytes));
    const size = Number(rest[1]);
    if (size > bytes.length) this.write(`… (${size} bytes)`);
  }
}

/** An object named without its content, or "" when its kind has no such form. */
function shortForm(entry: Value[]): string {
  switch (entry[0]) {
    case "LIST":
      return "[…]";
    case "TUPLE":
      return "(…)";
    case "SET":
    case "FROZENSET":
    case "DICT":
      return "{…}";
    case "INSTANCE":
      return `<${word(entry[1])}>`;
  }
  return "";
}
