// The limits of a run as fields people can fill in.
import type { Limits } from "../model/types";
import { number, size } from "../model/words";

interface Field {
  key: keyof Limits;
  label: string;
  unit: string;
  /** How much one of the unit is. */
  factor: number;
}

const FIELDS: Field[] = [
  { key: "wall_ms", label: "Time", unit: "s", factor: 1000 },
  { key: "cpu_ms", label: "Processor time", unit: "s", factor: 1000 },
  { key: "memory_bytes", label: "Memory", unit: "MiB", factor: 2 ** 20 },
  { key: "output_bytes", label: "Output", unit: "kB", factor: 1000 },
  { key: "processes", label: "Processes", unit: "", factor: 1 },
  { key: "open_files", label: "Open files", unit: "", factor: 1 },
  { key: "file_bytes", label: "File size", unit: "MiB", factor: 2 ** 20 },
  { key: "trace_events", label: "Recorded events", unit: "", factor: 1 },
  { key: "trace_bytes", label: "Size of the trace", unit: "KiB", factor: 2 ** 10 },
];

type Values = Partial<Record<keyof Limits, string>>;
type Bounds = Partial<Record<"default" | "minimum" | "maximum", Partial<Limits>>> | null;

/** The limits that were filled in, in the API's units. A text that is no number is left to the server to refuse. */
export function toLimits(values: Values): Record<string, unknown> {
  const limits: Record<string, unknown> = {};
  for (const { key, factor } of FIELDS) {
    const text = values[key]?.trim() ?? "";
    if (text === "") continue;
    const n = Number(text.replace(",", "."));
    limits[key] = Number.isFinite(n) ? Math.round(n * factor) : text;
  }
  return limits;
}

/** The limits of a job as they are filled in. */
export function fromLimits(limits: Partial<Limits>): Values {
  const values: Values = {};
  for (const { key, factor } of FIELDS) {
    const n = limits[key];
    if (n !== undefined) values[key] = String(n / factor);
  }
  return values;
}

/** Those of the limits that are not the fleet's own anyway. */
export function unusual(values: Values, usual: Partial<Limits> | undefined): Values {
  const own = fromLimits(usual ?? {});
  return Object.fromEntries(Object.entries(values).filter(([key, text]) => own[key as keyof Limits] !== text));
}

function inWords(field: Field, n: number): string {
  return field.unit.endsWith("iB") ? size(n) : number(n / field.factor) + (field.unit ? " " + field.unit : "");
}

interface Props {
  values: Values;
  bounds: Bounds;
  /** What the server found wrong, by the place in the document. */
  faults: { location: string; message: string }[];
  change: (values: Values) => void;
}

export function LimitFields({ values, bounds, faults, change }: Props) {
  return (
    <div class="limit-fields">
      {FIELDS.map((field) => {
        const [low, high, usual] = [bounds?.minimum?.[field.key], bounds?.maximum?.[field.key], bounds?.default?.[field.key]];
        const range = low !== undefined && high !== undefined ? `${inWords(field, low)} to ${inWords(field, high)}` : "";
        const fault = faults.find((f) => f.location.endsWith(`limits.${field.key}`));
        return (
          <label key={field.key} title={range}>
            <span>{field.label}{field.unit && <span class="quiet"> {field.unit}</span>}</span>
            <input type="text" inputMode="decimal" aria-description={range} aria-invalid={fault !== undefined} placeholder={usual === undefined ? "" : String(usual / field.factor)} value={values[field.key] ?? ""}
              onInput={(e) => change({ ...values, [field.key]: e.currentTarget.value })} />
            {fault && <span class="fault">{range || fault.message}</span>}
          </label>
        );
      })}
    </div>
  );
}
