// A picture of all calls: steps from left to right, depth from top to bottom.
// The tree beside it says the same to keyboards and screen readers.
import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { endOf } from "../model/calls";
import { functionName, type Frame, type Run } from "../model/run";
import { clean } from "../model/text";
import { cssColour, fitCanvas } from "./canvas";
import { useView } from "./parts";

const ROW = 18;
const MIN_ROWS = 5;
/** The share of the window's height that the picture may take, so that the tree below it is seen. */
const SHARE = 0.12;

interface Box {
  frame: Frame;
  from: number;
  to: number;
  row: number;
}

export function Flame() {
  const view = useView();
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const boxes = boxesOf(view.run, Math.max(MIN_ROWS, Math.floor((innerHeight * SHARE) / ROW)));
    const rows = boxes.reduce((most, b) => Math.max(most, b.row + 1), 1);
    element.style.height = `${rows * ROW + 2}px`;
    const draw = () => paint(element, view.run, boxes, view.step.peek());
    const stop = effect(() => {
      view.step.value;
      draw();
    });
    const observer = new ResizeObserver(draw);
    observer.observe(element);
    const click = (event: MouseEvent) => {
      const box = boxAt(element, view.run, boxes, event);
      if (box) view.jump(box.frame.steps[0] ?? 0);
    };
    const hover = (event: MouseEvent) => {
      const box = boxAt(element, view.run, boxes, event);
      element.title = box ? `${clean(functionName(box.frame.func))}, steps ${box.from + 1} to ${box.to + 1}` : "";
    };
    element.addEventListener("click", click);
    element.addEventListener("mousemove", hover);
    return () => {
      stop();
      observer.disconnect();
      element.removeEventListener("click", click);
      element.removeEventListener("mousemove", hover);
    };
  }, [view]);
  return <canvas class="flame" ref={canvas} aria-hidden="true" />;
}

/** The calls that fit into so many rows. Each thread has rows of its own, below those of the threads before it. */
function boxesOf(run: Run, rows: number): Box[] {
  const each = Math.max(1, Math.floor(rows / Math.max(1, run.threads.length)));
  const deepest = new Map<number, number>();
  for (const e of run.events) deepest.set(e.thread, Math.min(each, Math.max(deepest.get(e.thread) ?? 1, e.depth)));
  const top = new Map<number, number>();
  let next = 0;
  for (const thread of run.threads) {
    top.set(thread, next);
    next += deepest.get(thread) ?? 1;
  }
  const boxes: Box[] = [];
  for (const frame of run.frames.values()) {
    const from = frame.steps[0] ?? 0;
    const depth = run.event(from).depth - 1;
    if (depth >= each) continue;
    // A call whose end is not recorded was still there when the recording stopped.
    const to = endOf(run, frame).kind === "open" ? run.length - 1 : (frame.steps.at(-1) ?? from);
    boxes.push({ frame, from, to, row: (top.get(frame.thread) ?? 0) + depth });
  }
  return boxes;
}

function boxAt(canvas: HTMLCanvasElement, run: Run, boxes: Box[], event: MouseEvent): Box | undefined {
  const step = (event.offsetX / canvas.clientWidth) * run.length;
  const row = Math.floor(event.offsetY / ROW);
  const slack = run.length / canvas.clientWidth;
  return boxes.findLast((b) => b.row === row && step >= b.from - slack && step <= b.to + 1 + slack);
}

function paint(canvas: HTMLCanvasElement, run: Run, boxes: Box[], step: number): void {
  const context = fitCanvas(canvas);
  if (!context) return;
  const width = canvas.clientWidth;
  const scale = width / run.length;
  const colours = [0, 1, 2, 3, 4, 5].map((i) => cssColour(canvas, `--hue${i}-soft`));
  const text = cssColour(canvas, "--text");
  context.font = `11px ${getComputedStyle(canvas).fontFamily}`;
  context.textBaseline = "middle";
  let drawnTo = -1;
  let drawnRow = -1;
  for (const box of boxes) {
    const x = box.from * scale;
    const w = Math.max(1, (box.to - box.from + 1) * scale - 0.5);
    // Boxes narrower than a pixel that fall on one already drawn add nothing.
    if (w <= 1 && box.row === drawnRow && x < drawnTo) continue;
    drawnTo = x + w;
    drawnRow = box.row;
    context.fillStyle = colours[box.frame.func.id % 6] ?? "";
    context.fillRect(x, box.row * ROW + 1, w, ROW - 2);
    if (w < 28) continue;
    context.save();
    context.beginPath();
    context.rect(x, box.row * ROW, w - 4, ROW);
    context.clip();
    context.fillStyle = text;
    context.fillText(box.frame.func.kind === "module" ? clean(box.frame.path) : functionName(box.frame.func), x + 5, box.row * ROW + ROW / 2);
    context.restore();
  }
  context.fillStyle = cssColour(canvas, "--accent");
  context.fillRect(Math.min(width - 2, (step + 0.5) * scale - 1), 0, 2, canvas.clientHeight);
}
