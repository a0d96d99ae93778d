// Saves the answer in some form. A program of its own makes the texts; it is fetched when somebody
// asks for the first one.
import start, { pickled, written } from "./highwater-export.js";

const program = start({ module_or_path: new URL("highwater-export_bg.wasm", import.meta.url) });

// How each form is called as a file. The picture is drawn as SVG first, also when it becomes a PNG.
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
// Tokens of the style sheet, in the order in which the program wants their values.
const COLOURS = [
  "ground", "ink", "grid", "accent",
  "category-parameter", "category-buffer", "category-optimizer-state", "category-input",
  "category-gradient", "category-activation", "category-temporary", "category-workspace",
  "module-1", "module-2", "module-3", "module-4", "module-5", "module-6", "module-7", "module-other",
];
// Device pixels for one of the drawing's.
const DENSITY = 2;

/** Makes a form out of a packed answer, the snapshot out of a packed run, and hands it to the user as a file. */
export async function save(form, packed, name) {
  await program;
  const style = getComputedStyle(document.documentElement);
  const colours = COLOURS.map((token) => style.getPropertyValue(`--${token}`).trim());
  const content = form === "snapshot" ? pickled(packed) : written(form, packed, colours);
  const [ending, type] = FORMS[form];
  const blob = form === "png" ? await painted(content) : new Blob([content], { type });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${name.replace(/\.\w+$/, "")}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** The drawing as a PNG. It has paths and texts and nothing else, so that a canvas can follow it. */
function painted(svg) {
  const drawing = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  const canvas = document.createElement("canvas");
  canvas.width = drawing.getAttribute("width") * DENSITY;
  canvas.height = drawing.getAttribute("height") * DENSITY;
  const brush = canvas.getContext("2d");
  brush.scale(DENSITY, DENSITY);
  for (const shape of drawing.children) {
    const said = (name) => shape.getAttribute(name);
    brush.globalAlpha = said("opacity") ?? 1;
    brush.fillStyle = said("fill");
    if (shape.tagName === "path") {
      const path = new Path2D(said("d"));
      if (said("fill") !== "none") brush.fill(path);
      if (said("stroke")) {
        brush.strokeStyle = said("stroke");
        brush.lineWidth = said("stroke-width");
        brush.setLineDash((said("stroke-dasharray") ?? "").split(" ").filter(Boolean).map(Number));
        brush.stroke(path);
      }
    } else if (shape.tagName === "text") {
      brush.font = `${said("font-weight") ?? 400} ${said("font-size")}px system-ui, sans-serif`;
      brush.textAlign = { middle: "center", end: "right" }[said("text-anchor")] ?? "left";
      brush.fillText(shape.textContent, said("x"), said("y"));
    }
  }
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
