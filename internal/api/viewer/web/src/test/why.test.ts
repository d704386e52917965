import { why } from "../model/why";
import { madeRun, recorded, syntaxOf } from "./build";
import { equal, test } from "./harness";

test("a value leads to the line before, and on to what that line used", async () => {
  const run = await recorded("two_files");
  const frame = run.frameAt(run.fatal);
  const first = why(run, syntaxOf(run), { frame, name: "item", step: run.fatal });
  equal([first?.how, first?.line, first?.sure], ["argument of discount_for(…)", 10, true]);
  equal(first?.operands.map((o) => [o.name, o.text]), [["item", "'jam'"]]);
  const next = first?.operands[0];
  const second = next && why(run, syntaxOf(run), next);
  equal([second?.how, second?.line, second?.frame.path], ["argument of with_discount(…)", 7, "main.py"]);
  const third = second?.operands[0] && why(run, syntaxOf(run), second.operands[0]);
  equal([third?.how, third?.line, third?.operands.map((o) => o.name)], ["assigned", 6, ["basket"]]);
});

test("a changed object leads to the line that changed it", async () => {
  const run = await recorded("mutable_default");
  const step = run.length - 1;
  const frame = run.frameAt(step);
  const cause = why(run, syntaxOf(run), { frame, name: "first", step });
  equal([cause?.how, cause?.source, cause?.frame.func.name], ["the object ◆1 changed", "into.append(value)", "collect"]);
  equal(cause?.operands.map((o) => `${o.name}=${o.text}`), ["into=['red']", "value='blue'"]);
});

test("a global is told with the function that assigned it", async () => {
  const run = await recorded("threads");
  const step = run.length - 1;
  const cause = why(run, syntaxOf(run), { frame: run.frameAt(step), name: "total", step });
  equal([cause?.text, cause?.source, cause?.frame.func.name], ["33", "total += n", "add"]);
});

test("the chain ends with a reason", () => {
  const run = madeRun("x = 1\nx = x\n", [{ name: "<module>" }], [["call", 1, 1], ["line", 1, 1], ["line", 1, 2, { vars: { x: 1 } }], ["return", 1, 2]]);
  const frame = run.frameAt(0);
  const cause = why(run, syntaxOf(run), { frame, name: "x", step: 3 });
  equal([cause?.end, cause?.line, cause?.again], ["It stands in the source.", 1, 2]);
  equal(why(run, syntaxOf(run), { frame, name: "nothing", step: 3 }), null);
});

test("a returned value is told with the call it came from", () => {
  const run = madeRun("def f(): return 2\nx = f()\n", [{ name: "<module>" }, { name: "f" }], [
    ["call", 1, 1], ["line", 1, 2], ["call", 2, 1], ["line", 2, 1], ["return", 2, 1, { value: 2 }], ["return", 1, 2, { vars: { x: 2 } }],
  ]);
  const cause = why(run, syntaxOf(run), { frame: run.frameAt(0), name: "x", step: 5 });
  equal([cause?.line, cause?.inner.map((c) => c.text), cause?.end], [2, ["f(…) → 2"], ""]);
});
