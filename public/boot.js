// Starts the page: fetches the main script and its WebAssembly while nothing else is to do.
import * as keep from "./keep.js";

globalThis.highwater = keep;

// The page rounds sizes; a size that is copied is the exact one.
document.addEventListener("copy", (event) => {
  const { anchorNode, focusNode } = getSelection();
  const [size, other] = [anchorNode, focusNode].map((node) => node?.parentElement?.closest("data.byte-size"));
  if (!size || size !== other) return;
  event.clipboardData.setData("text/plain", size.value);
  event.preventDefault();
});
const { main, wasm } = document.querySelector("script[data-main]").dataset;
const at = (path) => new URL(path, document.baseURI).href;

// The page's own example is answered by a file: it is on its way before the program asks for it.
if (location.hash.length < 2 && !/[?&](embed|lesson)\b/.test(location.search)) {
  const link = Object.assign(document.createElement("link"), { rel: "preload", as: "fetch", crossOrigin: "anonymous" });
  link.href = at("examples/resnet50.answer");
  document.head.append(link);
}
const offline = navigator.serviceWorker;

// A newer version that has arrived takes over before anything of the older one runs.
const newer = (await offline?.getRegistration().catch(() => undefined))?.waiting;
if (newer) {
  await new Promise((goOn) => {
    const late = setTimeout(goOn, 1500);
    offline.onmessage = ({ data }) => {
      clearTimeout(late);
      if (data === "reload") location.reload();
      else goOn();
    };
    newer.postMessage("take over");
  });
}

try {
  const { default: start } = await import(at(main));
  await start({ module_or_path: at(wasm) });
  document.getElementById("boot")?.remove();
} catch (reason) {
  const boot = document.getElementById("boot");
  if (boot) boot.textContent = "Highwater could not start: it needs a current browser with WebAssembly.";
  throw reason;
}
