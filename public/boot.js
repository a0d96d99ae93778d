// Starts the page: fetches the main script and its WebAssembly while nothing else is to do.
const { main, wasm } = document.querySelector("script[data-main]").dataset;
const at = (path) => new URL(path, document.baseURI).href;
try {
  const { default: start } = await import(at(main));
  await start({ module_or_path: at(wasm) });
  document.getElementById("boot")?.remove();
} catch (reason) {
  const boot = document.getElementById("boot");
  if (boot) boot.textContent = "Highwater could not start: it needs a current browser with WebAssembly.";
  throw reason;
}
