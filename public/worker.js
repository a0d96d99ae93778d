// The page posts the address of the main script and its compiled WebAssembly; both halves of the
// program are the same file, so nothing is downloaded twice.

// What reads other formats than ONNX is a program of its own. It is asked for at once and awaited by
// nobody until it is needed.
const reader = import("./highwater-reader.js").then(async (program) => {
  const wasm = fetch(new URL("highwater-reader_bg.wasm", import.meta.url));
  await program.default({ module_or_path: wasm });
  return program;
});
reader.catch(() => {});
let program;
globalThis.readElsewhere = async (input, name) => (program = await reader).read(input, name);
globalThis.momentElsewhere = (event) => program.moment(event);

onmessage = async ({ data: { main, module } }) => {
  onmessage = null;
  const { default: start } = await import(main);
  await start({ module_or_path: module });
};
