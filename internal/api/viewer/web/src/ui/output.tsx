// What the program wrote: so far, and what is still to come.
import { useEffect, useMemo, useRef } from "preact/hooks";
import { blocksOf, bytesBefore, splitAt, type Block } from "../model/output";
import { visible } from "../model/text";
import { size } from "../model/words";
import { useView } from "./parts";

/** Both streams as they were at the step. A click leads to the moment of writing. */
export function Output() {
  const view = useView();
  const { run } = view;
  const { result } = run;
  const step = view.step.value;
  const atEnd = run.length === 0 || (step >= run.length - 1 && !run.cutShort);
  const [out, err] = atEnd ? [Infinity, Infinity] : run.output(step);
  if (result.stdout_bytes + result.stderr_bytes === 0) return <p class="quiet pad">The program wrote nothing.</p>;
  return (
    <div class="output">
      {!atEnd && (out < result.stdout_bytes || err < result.stderr_bytes) && (
        <p class="quiet">
          {run.outputUnsure(step) ? "Events are missing before this step: how much of the pale text had been written by then is not known." : "The pale text had not been written yet at this step."}
        </p>
      )}
      <Stream title="Standard output" index={0} text={result.stdout} bytes={result.stdout_bytes} cut={result.stdout_truncated} until={out} />
      <Stream title="Standard error" index={1} text={result.stderr} bytes={result.stderr_bytes} cut={result.stderr_truncated} until={err} />
    </div>
  );
}

function Stream(props: { title: string; index: 0 | 1; text: string; bytes: number; cut: boolean; until: number }) {
  const view = useView();
  const blocks = useMemo(() => blocksOf(props.text), [props.text]);
  const shown = useMemo(() => blocks.map((b) => visible(b.text)), [blocks]);
  const here = useRef<HTMLSpanElement>(null);
  // What was written last by now is what matters.
  useEffect(() => here.current?.scrollIntoView({ block: "nearest" }), [props.until]);
  if (props.bytes === 0) return null;
  const find = (event: MouseEvent) => {
    const at = clickedByte(event, blocks);
    const step = at < 0 ? -1 : view.run.events.findIndex((e) => (e.out?.[props.index] ?? -1) > at);
    if (step > 0) view.jump(step);
  };
  const kept = blocks.at(-1)?.to ?? 0;
  const boundary = props.until >= kept ? blocks.length - 1 : blocks.findIndex((b) => b.to > props.until);
  return (
    <section aria-label={props.title}>
      <h3>
        {props.title} <span class="quiet">{props.cut ? `first ${size(kept)} of ${size(props.bytes)}` : size(props.bytes)}</span>
      </h3>
      <pre class={props.index === 1 ? "stderr" : ""} onClick={find} title="Click: go to the moment this was written">
        {blocks.map((block, i) => {
          if (i === boundary) return <Boundary key={i} index={i} block={block} until={props.until} here={here} />;
          return <div key={i} class={`block ${i > boundary ? "future" : ""}`} data-block={i}>{shown[i]}</div>;
        })}
      </pre>
    </section>
  );
}

/** The block in which what has been written ends. */
function Boundary({ index, block, until, here }: { index: number; block: Block; until: number; here: preact.Ref<HTMLSpanElement> }) {
  const [before, after] = splitAt(block.text, until - block.from);
  return (
    <div class="block" data-block={index}>
      {visible(before)}
      <span ref={here} />
      {after !== "" && <span class="future"><span class="sr">still to come: </span>{visible(after)}</span>}
    </div>
  );
}

/** The number of bytes before the character that was clicked, or -1. */
function clickedByte(event: MouseEvent, blocks: Block[]): number {
  const found = document.caretPositionFromPoint?.(event.clientX, event.clientY);
  const host = found?.offsetNode.parentElement?.closest<HTMLElement>("[data-block]");
  const block = blocks[Number(host?.dataset["block"] ?? -1)];
  if (!found || !host || !block || !getSelection()?.isCollapsed) return -1;
  let offset = found.offset;
  const walker = document.createTreeWalker(host, NodeFilter.SHOW_TEXT, (node) =>
    node.parentElement?.classList.contains("sr") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT,
  );
  for (let node = walker.nextNode(); node && node !== found.offsetNode; node = walker.nextNode()) offset += node.textContent?.length ?? 0;
  return block.from + bytesBefore(block.text, offset);
}
