// What a source file says about its lines: statements, the names they read
// and write, loops, and colours. The parser tolerates errors; where it finds no
// structure the answers are empty, never wrong by much.
import type { SyntaxNode, Tree } from "@lezer/common";
import { highlightTree, tagHighlighter, tags } from "@lezer/highlight";
import { parser } from "@lezer/python";

/** A statement, without the statements inside it. */
export interface Statement {
  line: number;
  endLine: number;
  kind: string;
  /** Names it assigns. */
  writes: string[];
  /** Names whose value it uses, in the order of their appearance. */
  reads: string[];
  /** Names through which it changes an object: a in a.b = 1 or a.append(1). */
  touches: string[];
  /** True when it assigns one name to another and does nothing else. */
  copy: boolean;
  /** True when it reads no name at all. */
  literal: boolean;
  calls: boolean;
  /** The names used in the arguments of each call, by what is called: f for f(x) and for a.f(x). */
  passed: Map<string, string[]>;
}

/** A loop: the line of its head, and the last line of its body. */
export interface Loop {
  line: number;
  endLine: number;
  text: string;
}

/** A coloured piece of a line: columns from..to, and the class. */
export interface Piece {
  from: number;
  to: number;
  cls: string;
}

const SIMPLE = new Set([
  "AssignStatement", "UpdateStatement", "ExpressionStatement", "ReturnStatement", "RaiseStatement", "AssertStatement",
  "DeleteStatement", "ImportStatement", "YieldStatement", "PrintStatement", "ScopeStatement", "PassStatement",
  "BreakStatement", "ContinueStatement", "TypeDefinition",
]);
const COMPOUND = new Set([
  "ForStatement", "WhileStatement", "IfStatement", "WithStatement", "TryStatement", "MatchStatement",
  "FunctionDefinition", "ClassDefinition", "DecoratedStatement",
]);
/** Nodes in which names are of another scope. */
const SCOPES = new Set(["LambdaExpression", "FunctionDefinition", "ClassDefinition"]);
const CHANGING = /^(append|extend|insert|remove|pop|popleft|appendleft|clear|sort|reverse|add|discard|update|setdefault|popitem)$/;

export class Syntax {
  readonly statements = new Map<number, Statement>();
  readonly loops: Loop[] = [];
  private readonly tree: Tree;
  private readonly starts: number[] = [0];
  private pieces: Piece[][] | undefined;

  constructor(private readonly text: string) {
    for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) this.starts.push(at + 1);
    this.tree = parser.parse(text);
    this.tree.iterate({
      enter: (node) => {
        if (SIMPLE.has(node.name)) this.simple(node.node);
        else if (COMPOUND.has(node.name)) this.compound(node.node);
        else if (node.name === "MatchClause" || node.name === "comment") return false;
        return !SIMPLE.has(node.name);
      },
    });
  }

  /** The statement that a line event of the line stands for. */
  statementAt(line: number): Statement | undefined {
    const exact = this.statements.get(line);
    if (exact) return exact;
    for (let at = line - 1; at > 0 && at > line - 100; at--) {
      const s = this.statements.get(at);
      if (s) return s.endLine >= line ? s : undefined;
    }
    return undefined;
  }

  /** The loops around a line, innermost first; a head belongs to its own loop. */
  loopsAround(line: number): Loop[] {
    return this.loops.filter((l) => l.line <= line && l.endLine >= line).sort((a, b) => b.line - a.line);
  }

  /** The coloured pieces of every line. */
  highlight(): Piece[][] {
    if (this.pieces) return this.pieces;
    const pieces: Piece[][] = this.starts.map(() => []);
    highlightTree(this.tree, HIGHLIGHTER, (from, to, cls) => {
      for (let line = this.lineOf(from); line <= this.lineOf(to - 1); line++) {
        const start = this.starts[line - 1] ?? 0;
        const end = (this.starts[line] ?? this.text.length + 1) - 1;
        pieces[line - 1]?.push({ from: Math.max(from, start) - start, to: Math.min(to, end) - start, cls });
      }
    });
    this.pieces = pieces;
    return pieces;
  }

  private lineOf(position: number): number {
    let low = 0;
    let high = this.starts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.starts[middle] ?? 0) <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private simple(node: SyntaxNode): void {
    const uses = new Uses(this.text);
    const targets = node.name === "AssignStatement" ? lastDirect(node, "AssignOp") : -1;
    for (let child = node.firstChild; child; child = child.nextSibling) {
      const first = child.from === node.from;
      if (child.from < targets || (first && node.name === "UpdateStatement")) uses.target(child);
      if (node.name === "ImportStatement") {
        if (child.name === "VariableName") uses.write(child);
      } else if (child.from >= targets) uses.read(child);
    }
    const value = node.lastChild;
    this.add(node, node.to, uses, node.name === "AssignStatement" && value?.name === "VariableName");
  }

  /** A compound statement counts for its head only; its body has statements of its own. */
  private compound(node: SyntaxNode): void {
    if (node.name === "ForStatement" || node.name === "WhileStatement") this.loop(node);
    if (node.name === "DecoratedStatement" || node.name === "TryStatement") return;
    const uses = new Uses(this.text);
    let end = node.to;
    let target = node.name === "ForStatement";
    let as = false;
    for (let child = node.firstChild; child; child = child.nextSibling) {
      if (child.name === "Body" || child.name === "MatchBody") {
        end = child.from;
        break;
      }
      if (child.name === "in") target = false;
      if (SCOPES.has(node.name)) {
        if (child.name === "VariableName") uses.write(child);
      } else if (target || as) uses.target(child);
      else uses.read(child);
      as = child.name === "as";
    }
    this.add(node, end, uses, false);
  }

  private loop(node: SyntaxNode): void {
    let body = node.firstChild;
    while (body && body.name !== "Body") body = body.nextSibling;
    const line = this.lineOf(node.from);
    const end = (body ?? node).to;
    this.loops.push({
      line,
      endLine: this.lineOf(Math.max(node.from, lastVisible(this.text, end))),
      text: this.text.slice(node.from, body?.from ?? node.to).trim(),
    });
  }

  private add(node: SyntaxNode, end: number, uses: Uses, copy: boolean): void {
    const line = this.lineOf(node.from);
    if (this.statements.has(line)) return;
    const reads = [...uses.reads];
    this.statements.set(line, {
      line,
      endLine: this.lineOf(Math.max(node.from, lastVisible(this.text, end))),
      kind: node.name,
      writes: [...uses.writes],
      reads,
      touches: [...uses.touches],
      copy: copy && reads.length === 1,
      literal: reads.length === 0 && !uses.calls,
      calls: uses.calls,
      passed: uses.passed,
    });
  }
}

/** The position of the last character before end that is not white space. */
function lastVisible(text: string, end: number): number {
  let at = end - 1;
  while (at > 0 && /\s/.test(text.charAt(at))) at--;
  return at;
}

function lastDirect(node: SyntaxNode, name: string): number {
  let at = -1;
  for (let child = node.firstChild; child; child = child.nextSibling) if (child.name === name) at = child.from;
  return at;
}

/** Collects the names that parts of a statement read, write and touch. */
class Uses {
  reads = new Set<string>();
  writes = new Set<string>();
  touches = new Set<string>();
  calls = false;
  passed = new Map<string, string[]>();

  constructor(private readonly text: string) {}

  private name(node: SyntaxNode): string {
    return this.text.slice(node.from, node.to);
  }

  write(node: SyntaxNode): void {
    this.writes.add(this.name(node));
  }

  /** A part that is assigned to. */
  target(node: SyntaxNode): void {
    if (node.name === "VariableName") return this.write(node);
    if (node.name === "MemberExpression") {
      const base = baseOf(node);
      if (base) this.touches.add(this.name(base));
      return this.read(node);
    }
    if (node.name === "TypeDef") return;
    for (let child = node.firstChild; child; child = child.nextSibling) this.target(child);
  }

  /** A part whose value is used. */
  read(node: SyntaxNode): void {
    switch (node.name) {
      case "VariableName":
        this.reads.add(this.name(node));
        return;
      case "CallExpression":
        this.calls = true;
        this.call(node);
        break;
      case "ArgList":
        return this.args(node);
      case "NamedExpression":
        if (node.firstChild) this.write(node.firstChild);
        if (node.lastChild) this.read(node.lastChild);
        return;
      case "LambdaExpression":
      case "TypeDef":
        return;
      default:
        if (node.name.endsWith("ComprehensionExpression")) return this.comprehension(node);
    }
    for (let child = node.firstChild; child; child = child.nextSibling) this.read(child);
  }

  private call(node: SyntaxNode): void {
    const callee = node.firstChild;
    const last = callee?.name === "MemberExpression" ? callee.lastChild : callee;
    if (!callee || !last) return;
    const inner = new Uses(this.text);
    if (node.lastChild?.name === "ArgList") inner.args(node.lastChild);
    this.passed.set(this.name(last), [...inner.reads]);
    if (last.name !== "PropertyName") return;
    const base = baseOf(callee);
    if (base && CHANGING.test(this.name(last))) this.touches.add(this.name(base));
  }

  /** Arguments: in k=v only v is a use. */
  args(node: SyntaxNode): void {
    for (let child = node.firstChild; child; child = child.nextSibling) {
      if (child.name === "VariableName" && child.nextSibling?.name === "AssignOp") continue;
      this.read(child);
    }
  }

  /** A comprehension's own names are not uses. */
  private comprehension(node: SyntaxNode): void {
    const inner = new Uses(this.text);
    let target = false;
    for (let child = node.firstChild; child; child = child.nextSibling) {
      if (child.name === "for") target = true;
      else if (child.name === "in") target = false;
      else if (target) inner.target(child);
      else inner.read(child);
    }
    for (const name of inner.reads) if (!inner.writes.has(name)) this.reads.add(name);
    this.calls ||= inner.calls;
  }
}

/** The name at the root of a.b[c].d. */
function baseOf(node: SyntaxNode): SyntaxNode | null {
  let at: SyntaxNode | null = node;
  while (at && at.name === "MemberExpression") at = at.firstChild;
  return at?.name === "VariableName" ? at : null;
}

const HIGHLIGHTER = tagHighlighter([
  { tag: tags.keyword, class: "k" },
  { tag: [tags.controlKeyword, tags.operatorKeyword, tags.definitionKeyword, tags.moduleKeyword, tags.self], class: "k" },
  { tag: [tags.string, tags.special(tags.string)], class: "s" },
  { tag: [tags.number, tags.bool, tags.null], class: "n" },
  { tag: tags.comment, class: "c" },
  { tag: [tags.function(tags.definition(tags.variableName)), tags.definition(tags.className), tags.className], class: "d v" },
  { tag: tags.function(tags.variableName), class: "f v" },
  { tag: tags.function(tags.propertyName), class: "f" },
  { tag: tags.variableName, class: "v" },
  { tag: tags.meta, class: "m" },
]);
