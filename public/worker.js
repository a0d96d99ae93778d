// The page posts the address of the main script and its compiled WebAssembly; both halves of the
// program are the same file, so nothing is downloaded twice.

// What reads other formats than ONNX is a program of its own. It is asked for at once and awaited by
// nobody until it is needed.
const reader = load("highwater-reader");
reader.catch(() => {});
// What reads memory snapshots, once there is one.
let recorder;
globalThis.readElsewhere = async (input, name) => {
  const [first, version] = new Uint8Array(await new Response(input.slice(0, 2)).arrayBuffer());
  const isPickle = first === 0x80 && version >= 2 && version <= 5;
  if (!isPickle) return (await reader).read(input, name);
  recorder ??= await load("highwater-recorded");
  return recorder.read(input, name);
};
globalThis.askElsewhere = (ask) => recorder.answer(ask);

async function load(name) {
  const program = await import(`./${name}.js`);
  await program.default({ module_or_path: fetch(new URL(`${name}_bg.wasm`, import.meta.url)) });
  return program;
}

onmessage = async ({ data: { main, module } }) => {
  onmessage = null;
  const { default: start } = await import(main);
  await start({ module_or_path: module });
};
