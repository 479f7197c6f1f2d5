// Builds the console's scripts: `node build.mjs FOLDER`, after `npm ci`. The same sources and packages give the same bytes.
//
// FOLDER gets scripts with a hash in each name, `manifest.json` ({entry: file}) and `licences.txt` of all packages that went in.

import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const LICENCE = /^(licen[cs]e|copying)(\.(md|txt))?$/i;

const COMMON = {
  absWorkingDir: HERE,
  bundle: true,
  chunkNames: "chunk-[hash]",
  entryNames: "[name]-[hash]",
  legalComments: "none", // licences.txt has them whole
  metafile: true,
  minify: true,
  target: "es2022",
  write: true,
};

async function main(out) {
  await rm(out, { recursive: true, force: true });
  await mkdir(out, { recursive: true });
  const modules = { entryPoints: { console: "src/console.js", editor: "src/editor.js" }, format: "esm", splitting: true };
  const classic = { entryPoints: { theme: "src/theme-early.js" }, format: "iife" };
  const files = {};
  const packages = new Set();
  for (const options of [modules, classic]) {
    const { metafile } = await build({ ...COMMON, ...options, outdir: out });
    const names = Object.fromEntries(Object.entries(options.entryPoints).map(([name, source]) => [source, name]));
    for (const [file, { entryPoint }] of Object.entries(metafile.outputs)) {
      if (names[entryPoint]) files[names[entryPoint]] = basename(file);
    }
    for (const input of Object.keys(metafile.inputs)) {
      const found = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
      if (found) packages.add(found[1]);
    }
  }
  await writeFile(join(out, "manifest.json"), `${JSON.stringify(files, Object.keys(files).sort(), 2)}\n`);
  const licences = await Promise.all([...packages].sort().map(licenceOf));
  await writeFile(join(out, "licences.txt"), licences.join("\n"));
}

async function licenceOf(name) {
  const folder = join(HERE, "node_modules", name);
  const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const file = (await readdir(folder)).find((one) => LICENCE.test(one));
  if (!file) throw new Error(`${name} ${version} has no licence file, so it cannot be passed on`);
  const text = await readFile(join(folder, file), "utf8");
  return `==== ${name} ${version} (${license}) ====\n\n${text.trim()}\n`;
}

await main(resolve(process.argv[2]));
