// Runs `tools replay` as WebAssembly, which is what the page runs:
//
//     cargo build --profile wasm-release --target wasm32-wasip1 -p highwater-core --example tools
//     node core/examples/tools/replay.mjs PROGRAM.wasm FILE.txt.gz…
//
// The page's own target has neither files nor a clock. Compiler and profile are the same.
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { argv } from 'node:process';
import { WASI } from 'node:wasi';

const [, , program, ...files] = argv;
const wasi = new WASI({
  version: 'preview1',
  args: ['tools', 'replay', ...files.map((file) => resolve(file))],
  preopens: { '/': '/' },
});
const { instance } = await WebAssembly.instantiate(
  await readFile(program),
  wasi.getImportObject(),
);
wasi.start(instance);
