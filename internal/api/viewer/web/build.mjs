// Builds ../dist from src, and a manifest of what it was built from and to. The
// same sources give the same bytes.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "..", "dist");
const tests = join(here, "..", "testdata");

const options = {
  absWorkingDir: here,
  bundle: true,
  charset: "utf8",
  format: "iife",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
  minify: true,
  target: ["es2022"],
  write: false,
};
const one = async (entry, more = {}) => (await build({ ...options, entryPoints: [entry], ...more })).outputFiles[0].text;

const built = {
  "dist/app.js": licences() + (await one("src/main.tsx")),
  "dist/app.css": await one("src/style.css"),
  "dist/index.html": readFileSync(join(here, "src/index.html"), "utf8"),
  "testdata/unit.js": await one("src/test/main.ts"),
};
for (const [name, text] of Object.entries(built)) {
  // In a page that stands alone the text is inside an element, whose end it must not hold.
  if (name.endsWith("app.js") && /<\/script|<!--/i.test(text)) throw new Error("app.js would end its own element");
  if (name.endsWith("app.css") && /<\/style/i.test(text)) throw new Error("app.css would end its own element");
}

const hash = (text) => createHash("sha256").update(text).digest("hex");
const manifest = { sources: {}, built: {} };
for (const path of sources(here)) manifest.sources[relative(here, path).replaceAll("\\", "/")] = hash(readFileSync(path));
for (const [name, text] of Object.entries(built)) manifest.built[name] = hash(text);

rmSync(dist, { recursive: true, force: true });
mkdirSync(dist, { recursive: true });
mkdirSync(tests, { recursive: true });
for (const [name, text] of Object.entries(built)) writeFileSync(join(here, "..", name), text);
writeFileSync(join(here, "..", "manifest.json"), JSON.stringify(manifest, null, 1) + "\n");
for (const [name, text] of Object.entries(built)) console.log(name.padEnd(18), text.length);

function sources(folder) {
  return readdirSync(folder)
    .filter((name) => name !== "node_modules" && name !== ".gitignore")
    .sort()
    .map((name) => join(folder, name))
    .flatMap((path) => (statSync(path).isDirectory() ? sources(path) : [path]));
}

// Who wrote what is bundled, and under which terms.
function licences() {
  const lock = JSON.parse(readFileSync(join(here, "package-lock.json"), "utf8"));
  const names = [];
  const terms = new Set();
  for (const [path, p] of Object.entries(lock.packages)) {
    if (path === "" || p.dev || p.optional) continue;
    const text = readFileSync(join(here, path, "LICENSE"), "utf8");
    names.push(`${path.replace("node_modules/", "")} ${p.version}: ${p.license}. ${/Copyright.*/.exec(text)?.[0].trim() ?? ""}`);
    terms.add(text.replace(/^.*MIT License.*$/m, "").replace(/Copyright.*/, "").replace(/\s+/g, " ").trim());
  }
  return `/* Bundled packages:\n${[...names, ...terms].join("\n")}\n*/\n`;
}
