// The text of an output stream in blocks, so that a step does not touch all of it,
// and its places in bytes, which are what events tell.
import { visible } from "./text";

/** A piece of the output; from and to count bytes. */
export interface Block {
  from: number;
  to: number;
  text: string;
}

/** How long a block is at least, in characters, if there is more; it ends with a line. */
const BLOCK = 4000;
/** How long it is at most. */
const LONGEST = 20_000;

/** Cuts the output into blocks, at ends of lines where it has some. */
export function blocksOf(text: string): Block[] {
  const blocks: Block[] = [];
  let from = 0;
  for (let at = 0; at < text.length; ) {
    const line = text.indexOf("\n", at + BLOCK);
    let end = line < 0 ? text.length : line + 1;
    if (end - at > LONGEST) end = splittable(text, at + LONGEST);
    const part = text.slice(at, end);
    const to = from + size(part);
    blocks.push({ from, to, text: part });
    from = to;
    at = end;
  }
  return blocks;
}

/** The place, or the one after it, that does not part a surrogate pair. */
function splittable(text: string, at: number): number {
  const unit = text.charCodeAt(at);
  return unit >= 0xdc00 && unit < 0xe000 ? at + 1 : at;
}

/** The length of a text in bytes. */
export function size(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** Splits a text behind so many bytes; a character that these part belongs to what follows. */
export function splitAt(text: string, bytes: number): [string, string] {
  let seen = 0;
  let at = 0;
  for (const c of text) {
    seen += size(c);
    if (seen > bytes) break;
    at += c.length;
  }
  return [text.slice(0, at), text.slice(at)];
}

/** How many bytes of a text are before the character that stands so far to the right when it is shown. */
export function bytesBefore(text: string, shown: number): number {
  let bytes = 0;
  let at = 0;
  for (const c of text) {
    at += visible(c).length;
    if (at > shown) break;
    bytes += size(c);
  }
  return bytes;
}
