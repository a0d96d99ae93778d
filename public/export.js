// Saves the answer in some form. A program of its own makes the texts; it is fetched when somebody
// asks for the first one.
import start, { painted, pickled, written } from "./highwater-export.js";

const program = start({ module_or_path: new URL("highwater-export_bg.wasm", import.meta.url) });

// How each form is called as a file.
const FORMS = {
  png: ["timeline.png", "image/png"],
  svg: ["timeline.svg", "image/svg+xml"],
  timeline: ["timeline.csv", "text/csv"],
  tensors: ["tensors.csv", "text/csv"],
  devices: ["devices.csv", "text/csv"],
  json: ["json", "application/json"],
  markdown: ["md", "text/markdown"],
  trace: ["trace.json", "application/json"],
  snapshot: ["pickle", "application/octet-stream"],
};
/** Makes a form out of a packed answer, the snapshot out of a packed run, and hands it to the user as a file. */
export async function save(form, packed, name) {
  await program;
  const [ending, type] = FORMS[form];
  const text = () => new Blob([form === "snapshot" ? pickled(packed) : written(form, packed)], { type });
  const blob = form === "png" ? await png(packed) : text();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${name.replace(/\.\w+$/, "")}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** The picture as a PNG. */
function png(packed) {
  const canvas = document.createElement("canvas");
  if (!painted(canvas, packed)) throw new Error("the picture could not be drawn");
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
