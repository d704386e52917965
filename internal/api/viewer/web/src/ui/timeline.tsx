// The whole run from left to right: how deep it was, where something happened,
// where events are missing; and the slider over all of it.
import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { history } from "../model/history";
import { gapWords, number } from "../model/words";
import { cssColour, fitCanvas } from "./canvas";
import { useView } from "./parts";
import type { ViewState } from "./state";
import { placeWords } from "./words";

export function Timeline() {
  const view = useView();
  const canvas = useRef<HTMLCanvasElement>(null);
  const { run } = view;
  const step = view.step.value;
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const draw = () => paint(element, view);
    const stop = effect(() => {
      view.step.value;
      view.name.value;
      view.frame.value;
      draw();
    });
    const observer = new ResizeObserver(draw);
    observer.observe(element);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", draw);
    document.addEventListener("themechange", draw);
    return () => {
      stop();
      observer.disconnect();
      scheme.removeEventListener("change", draw);
      document.removeEventListener("themechange", draw);
    };
  }, [view]);
  return (
    <div class="timeline">
      <div class="track">
      <canvas ref={canvas} aria-hidden="true" />
      <input
        class={openEnded(view) ? "open-ended" : ""}
        type="range"
        min={1}
        max={run.length}
        value={step + 1}
        aria-label="Step"
        aria-valuetext={placeWords(run, step)}
        title={placeWords(run, step)}
        onInput={(event) => view.go(Number(event.currentTarget.value) - 1)}
      />
      </div>
      {run.gaps.length > 0 && (
        <p class="gap-words">
          <span class="hatch" aria-hidden="true" /> {run.gaps.length === 1 && run.gaps[0] ? gapWords(run.gaps[0], run.result) : `${number(run.gaps.length)} gaps in the recording`}
        </p>
      )}
    </div>
  );
}

const GAP = 22;
/** How tall the marks of changes are, so that many of them leave the depth in sight. */
const CHANGE_STRIP = 8;
/** With more exceptions than this only the one that ended the program has a tall mark. */
const MANY = 40;
const THUMB = 14;

/** Tells whether events are missing at the end, where nothing follows. */
function openEnded(view: ViewState): boolean {
  return view.run.gaps.some((g) => g.before >= view.run.length);
}

/** Where a step is across the width: where the slider's thumb is when it stands there. */
function scaleOf(view: ViewState, width: number): (step: number) => number {
  const last = Math.max(1, view.run.length - 1);
  const room = Math.max(10, width - THUMB - (openEnded(view) ? GAP : 0));
  return (step) => THUMB / 2 + (step / last) * room;
}

function paint(canvas: HTMLCanvasElement, view: ViewState): void {
  const context = fitCanvas(canvas);
  const { run } = view;
  if (!context || run.length === 0) return;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const x = scaleOf(view, width);
  const floor = height - 6;
  context.fillStyle = cssColour(canvas, "--depth");
  const half = Math.max(0.5, (x(1) - x(0)) / 2);
  let column = -1;
  let deepest = 0;
  let left = 0;
  let right = 0;
  run.events.forEach((e, step) => {
    const at = Math.floor(x(step));
    if (at !== column) {
      if (column >= 0) bar(context, left, right - left, floor, deepest, run.maxDepth);
      column = at;
      deepest = 0;
      left = x(step) - half;
    }
    right = x(step) + half;
    deepest = Math.max(deepest, e.depth);
  });
  bar(context, left, right - left, floor, deepest, run.maxDepth);
  for (const gap of run.gaps.slice(0, 50)) {
    const end = gap.before >= run.length;
    hatch(context, end ? width - GAP : x(gap.before) - half - 5, end ? GAP : 10, floor, cssColour(canvas, "--quiet"));
  }
  marks(context, view, x, floor, canvas);
}

function bar(context: CanvasRenderingContext2D, x: number, width: number, floor: number, depth: number, most: number): void {
  const height = 4 + ((floor - 12) * depth) / most;
  const left = Math.floor(x);
  context.fillRect(left, floor - height, Math.max(1, Math.ceil(x + width) - left), height);
}

function hatch(context: CanvasRenderingContext2D, x: number, width: number, height: number, colour: string): void {
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.save();
  context.beginPath();
  context.rect(x, 0, width, height);
  context.clip();
  context.clearRect(x, 0, width, height);
  context.beginPath();
  for (let at = x - height; at < x + width + height; at += 5) {
    context.moveTo(at, height);
    context.lineTo(at + height, 0);
  }
  context.stroke();
  context.restore();
}

/** Marks below the profile: output, changes of the selected name, exceptions on top. */
function marks(context: CanvasRenderingContext2D, view: ViewState, x: (step: number) => number, floor: number, canvas: HTMLCanvasElement): void {
  const { run } = view;
  const tick = (step: number, colour: string, top: number, height: number) => {
    context.fillStyle = cssColour(canvas, colour);
    context.fillRect(x(step) - 1, top, 2, height);
  };
  const green = cssColour(canvas, "--good");
  run.events.forEach((e, step) => {
    if (!e.out) return;
    context.fillStyle = green;
    context.fillRect(x(step) - 1, floor + 2, 2, 4);
  });
  const frame = view.frame.peek();
  if (view.name.peek() && frame) {
    for (const m of history(run, frame, view.name.peek()).slice(0, 3000)) tick(m.step, "--change", 0, CHANGE_STRIP);
  }
  const raises = run.raises().slice(0, 2000);
  for (const step of raises) tick(step, "--bad", 0, step === run.fatal || raises.length <= MANY ? floor : CHANGE_STRIP);
}
