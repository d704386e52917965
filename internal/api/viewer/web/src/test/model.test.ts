import { heldObjects } from "../model/aliases";
import { align, firstDifference } from "../model/diff";
import { effectRows, effectsLeftOut, raisedRows, raisedTotal } from "../model/effects";
import { history } from "../model/history";
import { excerpt, passAt, passesOf } from "../model/loops";
import { blocksOf, bytesBefore, splitAt } from "../model/output";
import { parseKeepingFloats } from "../model/parse";
import { functionName } from "../model/run";
import { Syntax } from "../model/syntax";
import { pythonString, visible } from "../model/text";
import { why } from "../model/why";
import { madeRun, recorded, syntaxOf } from "./build";
import { equal, test } from "./harness";

const MODULE = { name: "<module>" };

test("numbers with a fraction keep their text, also beside strings that look like them", () => {
  equal(parseKeepingFloats('{"a":1.0,"b":[1,-2.5e-07],"c":"1.5 \\"2.5","d\\\\":-0.0}'), {
    a: ["FLOAT", "1.0"], b: [1, ["FLOAT", "-2.5e-07"]], c: '1.5 "2.5', "d\\": ["FLOAT", "-0.0"],
  });
});

test("names that objects of JavaScript have are names like any other", () => {
  const run = madeRun("", [MODULE], [["call", 1, 1], ["line", 1, 1], ["line", 1, 2, JSON.parse('{"vars":{"__proto__":1,"constructor":2,"toString":3}}')]]);
  const frame = run.frameAt(2);
  equal([...run.variables(frame, 2)], [["__proto__", 1], ["constructor", 2], ["toString", 3]]);
});

test("names of functions are shown, not sent", () => {
  const run = madeRun("", [{ name: "a\u202eb" }], [["call", 1, 1]]);
  equal(functionName(run.frameAt(0).func), "a\\u202eb");
});

test("strings are written as Python does", () => {
  equal(pythonString("it's"), `"it's"`);
  equal(pythonString(`'"\\\n\u0000é\u202e`), `'\\'"\\\\\\n\\x00é\\u202e'`);
  equal(visible("a\u001b[2J\tb\n\u202e"), "a␛[2J\tb\n\\u202e");
});

test("the stack follows calls and returns, and knows nothing across a gap", () => {
  const run = madeRun("", [MODULE, { name: "f" }, { name: "g" }], [
    ["call", 1, 1], ["line", 1, 1], ["call", 2, 1], ["line", 2, 2], ["call", 3, 1], ["return", 3, 1], ["line", 2, 3], ["return", 2, 3], ["line", 1, 2],
  ]);
  equal(run.stack(4).map((f) => f.id), [3, 2, 1]);
  equal(run.stack(5).map((f) => f.id), [3, 2, 1]);
  equal(run.stack(6).map((f) => f.id), [2, 1]);
  equal(run.stack(8).map((f) => f.id), [1]);
  equal(run.frames.get(2)?.parent?.id, 1);
});

test("after a gap the stack is what is known of it, and a gap is a cause of its own", () => {
  const run = madeRun("x = 1\n", [MODULE, { name: "f" }, { name: "g" }], [
    ["call", 1, 1], ["line", 1, 1], ["line", 3, 2, { depth: 3, vars: { y: 5 } }], ["return", 3, 2, { depth: 3 }], ["line", 2, 3, { depth: 2 }], ["line", 1, 2, { depth: 1, vars: { x: 9 } }],
  ], {}, [{ after_seq: 2, skipped: -1, cause: "event_limit" }]);
  equal(run.gaps.map((g) => g.before), [2]);
  equal(run.stack(2).map((f) => f.id), [3]);
  equal(run.stack(4).map((f) => f.id), [2]);
  equal(run.stack(5).map((f) => f.id), [1]);
  equal(why(run, syntaxOf(run), { frame: run.frameAt(5), name: "x", step: 5 })?.end, "It changed where events are missing.");
});

test("after a gap only what was looked at is known", () => {
  const run = madeRun("x = 1\ny = 2\nx = 3\nprint(x)\n", [MODULE, { name: "f" }], [
    ["call", 1, 1], ["line", 1, 2, { vars: { x: 1 } }], ["line", 1, 2, { unseen: true }], ["line", 1, 3, { unseen: true }], ["line", 1, 4, { vars: { x: 3, y: 2 } }],
  ], {}, [{ after_seq: 2, skipped: 5, cause: "event_limit" }]);
  const frame = run.frameAt(0);
  equal([run.lookedAt(frame, 1), run.lookedAt(frame, 3), run.lookedAt(frame, 4)], [1, -1, 4]);
  equal([...run.variables(frame, 3)], []);
  equal([...run.variables(frame, 4)], [["x", 3], ["y", 2]]);
});

test("output is cut into blocks whose places count bytes", () => {
  const line = "é".repeat(1500) + "\n";
  const blocks = blocksOf(line.repeat(7));
  equal(blocks.map((b) => [b.from, b.to, b.text.length]), [[0, 9003, 4503], [9003, 18006, 4503], [18006, 21007, 1501]]);
  equal(blocksOf("x" + "👍".repeat(15_000)).map((b) => b.text.length), [20_001, 10_000]);
  equal(splitAt("aé👍b", 3), ["aé", "👍b"]);
  equal(splitAt("aé👍b", 4), ["aé", "👍b"]);
  equal([bytesBefore("\u001b[0mé!", 4), bytesBefore("\u202eab", 6), bytesBefore("é👍", 99)], [4, 3, 6]);
});

test("where recording only went on in another way there is no gap", () => {
  const run = madeRun("", [MODULE], [["call", 1, 1], ["line", 1, 1], ["line", 1, 2, { vars: { x: 1 } }]], {}, [{ after_seq: 2, skipped: 0, cause: "event_limit" }]);
  equal(run.gaps, []);
});

test("after a gap it is not known how much was written, until an event tells", () => {
  const run = madeRun("", [MODULE], [
    ["call", 1, 1, { out: [3, 0] }], ["line", 1, 1], ["line", 1, 2], ["line", 1, 3, { out: [9, 0] }],
  ], {}, [{ after_seq: 2, skipped: 5, cause: "event_limit" }]);
  equal([0, 1, 2, 3].map((step) => [run.output(step)[0], run.outputUnsure(step)]), [[3, false], [3, false], [3, true], [9, false]]);
  equal(run.cutShort, false);
});

test("an exception with a qualified name is found after a gap", () => {
  const end = { type: "json.decoder.JSONDecodeError", message: "bad", file: "main.py", line: 3, column: null, function: "<module>", traceback: [], cause: null, context: null, group: [] };
  const run = madeRun("", [MODULE], [["call", 1, 1], ["line", 1, 3], ["exception", 1, 3, { exception: { type: "json.decoder.JSONDecodeError", message: "bad" } }]],
    { status: "exception", exception: end }, [{ after_seq: 1, skipped: 5, cause: "event_limit" }]);
  equal(run.fatal, 2);
});

test("what ended the program is told from what was raised after it", () => {
  const end = { type: "KeyError", message: "'b'", file: "main.py", line: 3, column: null, function: "<module>", traceback: [], cause: null, context: null, group: [] };
  const raised = (type: string, thread = 1) => ({ thread, exception: { type, message: "" } });
  const atexit = madeRun("", [MODULE, { name: "bye" }, { name: "late" }], [
    ["call", 1, 1], ["line", 1, 3], ["exception", 1, 3, raised("KeyError")], ["unwind", 1, 3],
    ["call", 2, 5], ["line", 2, 6], ["exception", 2, 6, raised("FileNotFoundError")], ["line", 2, 7], ["return", 2, 7],
    ["call", 3, 3, { thread: 2 }], ["line", 3, 3, { thread: 2 }], ["exception", 3, 3, raised("KeyError", 2)],
  ], { status: "exception", exception: end });
  equal([atexit.fatal, atexit.opening()], [2, 2]);
  const elsewhere = madeRun("", [MODULE, { name: "late" }], [
    ["call", 1, 1], ["line", 1, 9], ["exception", 1, 9, raised("KeyError")], ["call", 2, 3, { thread: 2 }], ["exception", 2, 4, raised("ValueError", 2)],
  ], { status: "exception", exception: end });
  equal(elsewhere.fatal, 2);
});

test("what changes in a class is told by its attributes", async () => {
  const run = await recorded("class_attribute");
  const told = run.events.flatMap((e, step) => (e.event === "line" && run.frameAt(step).func.kind === "module" ? [run.classChanges(run.variables(run.frameAt(step), step).get("Account"), step, 36)] : []));
  equal(told.filter((texts) => texts !== null && texts.length > 0), [["history = […]"], ["history = […, …]"], ["history = […, …, …]"]]);
  equal([told[0], told[2]], [null, []]);
});

test("a recorded run is not told wrongly after its gap", async () => {
  const run = await recorded("gap");
  equal(run.event(run.fatal).exception?.type, "IndexError");
  const frame = run.frameAt(run.fatal);
  const cause = why(run, syntaxOf(run), { frame, name: "total", step: run.fatal });
  equal([cause?.line, cause?.sure, cause?.operands.map((o) => [o.name, o.stale])], [9, false, [["total", true], ["i", true]]]);
});

test("between looks the line that assigns is named", () => {
  const run = madeRun("x = 1\ny = 2\nx = 3\nprint(x)\n", [MODULE], [
    ["call", 1, 1], ["line", 1, 1, { vars: {} }], ["line", 1, 2, { unseen: true }], ["line", 1, 3, { unseen: true }], ["line", 1, 4, { vars: { x: 3, y: 2 } }],
  ]);
  const at = (name: string) => {
    const cause = why(run, syntaxOf(run), { frame: run.frameAt(0), name, step: 4 });
    return [cause?.line, cause?.sure];
  };
  equal([at("x"), at("y")], [[3, false], [2, true]]);
});

test("a run opens at its failure", async () => {
  const run = await recorded("two_files");
  equal(run.event(run.opening()).event, "exception");
  equal(run.opening(), run.fatal);
  equal((await recorded("endless_loop")).opening(), 59);
  equal((await recorded("shapes")).opening(), 0);
});

test("history has changes of the object as well as assignments", async () => {
  const run = await recorded("mutable_default");
  const frame = run.frameAt(8);
  equal(history(run, frame, "into").map((m) => m.text), ["['red']", "['red', 'blue']"]);
});

test("a loop is a table of its passes", async () => {
  const run = await recorded("two_files");
  const syntax = syntaxOf(run)("main.py");
  const loop = syntax?.loops[0];
  const frame = run.frames.get(1);
  if (!syntax || !loop || !frame) throw new Error("no loop");
  const table = passesOf(run, syntax, loop, frame, run.fatal);
  equal(table?.columns, ["item", "price", "total"]);
  equal(table?.passes.map((p) => p.broken), [false, false, true]);
  equal(passAt(table?.passes ?? [], run.fatal), 2);
});

test("a long table keeps its ends and what is around the current row", () => {
  const passes = Array.from({ length: 200 }, (_, i) => ({ number: i + 1, from: i, to: i + 1, broken: false }));
  const rows = excerpt(passes, 100).map((p) => p?.number ?? 0);
  equal([rows.length, rows.indexOf(0), rows[21], rows.lastIndexOf(0), rows.at(-1)], [63, 20, 91, 42, 200]);
});

test("statements know what they read, write and change", () => {
  const s = new Syntax("total += price * f(x, k=y)\na.b[i] = c\nitems.append(n)\nfor q, r in zip(u, v):\n    w = [z for z in q]\nt: int = 3\n");
  const at = (line: number) => {
    const found = s.statementAt(line);
    return [found?.writes, found?.reads, found?.touches];
  };
  equal(at(1), [["total"], ["total", "price", "f", "x", "y"], []]);
  equal(at(2), [[], ["a", "i", "c"], ["a"]]);
  equal(at(3), [[], ["items", "n"], ["items"]]);
  equal(at(4), [["q", "r"], ["zip", "u", "v"], []]);
  equal(at(5), [["w"], ["q"], []]);
  equal([at(6)[0], s.statementAt(6)?.literal], [["t"], true]);
  equal(s.loops.map((l) => [l.line, l.endLine]), [[4, 5]]);
});

test("objects list every name that is the same object", async () => {
  const run = await recorded("mutable_default");
  const last = run.length - 1;
  const list = [...heldObjects(run, last, 10).values()].find((h) => h.entry[0] === "LIST");
  equal(list?.names, ["first", "second"]);
});

test("effects are told in words, with their step", () => {
  const base = { kind: "file", action: "read", name: "a.txt", error: null, times: 1, failures: 0, file: "main.py", line: 1, function: "f", thread: 1, seq: 2 };
  const effects = [
    base,
    { ...base, times: 3, failures: 2, error: "ENOENT" },
    { ...base, kind: "socket", action: "connect", name: "10.0.0.1:80", family: "AF_INET", error: "ENETUNREACH", failures: 1, seq: 99 },
    { ...base, kind: "process", action: "fork", name: "", file: "", seq: 0 },
    { ...base, kind: "novel", action: "novelty", error: "EXYZ", failures: 1 },
  ];
  const run = madeRun("", [MODULE], [["call", 1, 1], ["line", 1, 1]], { effects, summary: { effects_total: { file: 9, socket: 1, process: 1 } } as never });
  equal(effectRows(run).map((e) => [e.what, e.name, e.failure, e.times, e.place, e.step]), [
    ["opened to read", "a.txt", "", "", "main.py:1", 1],
    ["opened to read", "a.txt", "2 times not found (ENOENT)", "3 times", "main.py:1", 1],
    ["tried to connect to", "10.0.0.1:80", "there is no network (ENETUNREACH)", "", "main.py:1", null],
    ["forked", "", "", "", "", null],
    ["tried to novelty", "a.txt", "EXYZ", "", "main.py:1", 1],
  ]);
  equal(effectsLeftOut(run), 4);
  equal(effectRows(madeRun("", [MODULE], [["call", 1, 1]])), []);
});

test("exceptions of the whole run are listed, with holes, and lead to their steps where there are any", () => {
  const raised = { type: "ValueError", message: "x", file: "main.py", line: 2, function: "<module>", thread: 1, caught: true };
  const exceptions = [{ ...raised, number: 1, seq: 1 }, { ...raised, number: 8, seq: 700 }];
  const run = madeRun("", [MODULE], [["call", 1, 1], ["exception", 1, 2, { exception: { type: "ValueError", message: "x" } }], ["line", 1, 3]],
    { summary: { exceptions, exceptions_caught: 8 } as never });
  equal(raisedRows(run).map((r) => [r.raised?.number ?? 0, r.leftOut, r.step]), [[1, 0, 1], [0, 6, null], [8, 0, null]]);
  equal(raisedTotal(run), 8);
  const older = madeRun("", [MODULE], [["call", 1, 1], ["exception", 1, 2, { exception: { type: "ValueError", message: "x" } }]]);
  equal(raisedRows(older).map((r) => [r.raised?.type, r.step]), [["ValueError", 1]]);
});

test("a run whose thread failed opens there, and says so", async () => {
  const run = await recorded("effects");
  equal(run.event(run.opening()).exception?.type, run.result.summary?.thread_exceptions?.[0]?.type);
});

test("texts are aligned by the longest common lines", () => {
  equal([...align(["a", "b", "c", "d"], ["a", "x", "c", "d"])].sort(), [[1, 1], [3, 3], [4, 4]]);
});

test("two runs differ first where a value does, or the path", () => {
  const one = (second: number) => madeRun("x = 1\ny = x\nprint(y)\n", [MODULE], [
    ["call", 1, 1], ["line", 1, 1], ["line", 1, 2, { vars: { x: 1 } }], ["line", 1, 3, { vars: { y: second } }],
  ]);
  const found = firstDifference(one(1), one(2));
  equal([found.kind, found.a, found.values], ["values", 3, [{ name: "y", a: "1", b: "2" }]]);
  equal(firstDifference(one(1), one(1)).kind, "none");
  const turned = madeRun("x = 1\ny = x\nprint(y)\n", [MODULE], [["call", 1, 1], ["line", 1, 1], ["line", 1, 3, { vars: { x: 1 } }]]);
  equal(firstDifference(one(1), turned).kind, "path");
});

test("a changed line is passed over, and its effect is the difference", () => {
  const run = (source: string, y: number) => madeRun(source, [MODULE], [
    ["call", 1, 1], ["line", 1, 1], ["line", 1, 2, { vars: { x: 1 } }], ["line", 1, 3, { vars: { y } }],
  ]);
  const found = firstDifference(run("x = 1\ny = x\nprint(y)\n", 1), run("x = 1\ny = x + 1\nprint(y)\n", 2));
  equal([found.kind, found.values[0]?.name], ["values", "y"]);
});
