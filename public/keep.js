// What outlives a visit: the page's state in its address, and the list of what was opened before.

const KEY = "highwater-recent";
// Entries of the list, and characters of one of them.
const MOST = 8;
const LONGEST = 32000;
// Bytes of a state once it is unpacked: whoever made the address may mean harm.
const UNPACKED = 1 << 21;

const piped = (bytes, through) => new Blob([bytes]).stream().pipeThrough(through);

/** A text as a fragment: `v1.` and base64url of what deflate makes of it. */
export async function pack(text) {
  const packed = piped(text, new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(packed).arrayBuffer());
  const letters = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return `v1.${btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

/** The text in a fragment; fails for what is none. */
export async function unpack(fragment) {
  const [version, packed] = fragment.split(".");
  if (version !== "v1") throw new Error("another version");
  const letters = atob(packed.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  const reader = piped(bytes, new DecompressionStream("deflate-raw")).getReader();
  const parts = [];
  let size = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    size += part.value.length;
    if (size > UNPACKED) throw new Error("too long");
  }
  return new Blob(parts).text();
}

/** The fragment of the page's address. */
export const fragment = () => location.hash.slice(1);

/** Puts a fragment into the page's address, as an entry of its own or in place of the newest; an empty one takes
 * it away. */
export function show(fragment, asEntry) {
  const address = fragment ? `#${fragment}` : location.pathname + location.search;
  if (asEntry) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

/** The page's address as a whole. */
export const wholeAddress = () => location.href;

/** Puts a text into the clipboard. */
export const copy = (text) => navigator.clipboard.writeText(text);

/** Opens what a fragment names: the page listens for its address to change. */
export function visit(fragment) {
  location.hash = fragment;
}

/** What was opened before, the newest first: name, kind, fragment. */
export function recent() {
  try {
    const list = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return list.filter((entry) => entry.length === 3 && entry.every((part) => typeof part === "string"));
  } catch {
    return [];
  }
}

/** Remembers an input and the newest address of it. */
export function remember(name, kind, fragment) {
  const others = recent().filter((entry) => entry[0] !== name || entry[1] !== kind);
  if (fragment.length <= LONGEST) keep([[name, kind, fragment], ...others].slice(0, MOST));
}

/** Forgets one of them, or all. */
export function forget(place) {
  forgetFile(place < 0 ? undefined : recent()[place]?.[0]);
  keep(place < 0 ? [] : recent().filter((_, at) => at !== place));
}

function keep(list) {
  try {
    localStorage.setItem(KEY, JSON.stringify(list));
  } catch {
    // A browser that keeps nothing has no list.
  }
}

// Files that were opened: how many are kept, and how large they may be, in bytes.
const FILES = 8;
const FILE_MAX = 32 << 20;

/** The table of kept files, or undefined where the browser keeps nothing. */
function files(mode) {
  return new Promise((resolve) => {
    const opening = indexedDB.open("highwater", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("files", { keyPath: "name" });
    opening.onsuccess = () => resolve(opening.result.transaction("files", mode).objectStore("files"));
    opening.onerror = opening.onblocked = () => resolve(undefined);
  });
}

const asked = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

/** Keeps a small file in this browser, and drops the oldest ones. */
export async function keepFile(file) {
  if (file.size > FILE_MAX) return;
  const table = await files("readwrite").catch(() => undefined);
  if (!table) return;
  table.put({ name: file.name, file, at: Date.now() });
  const all = await asked(table.getAll());
  const old = all.sort((a, b) => b.at - a.at).slice(FILES);
  for (const { name } of old) table.delete(name);
}

// The name of the file that `highwater open` serves with the page.
const served = new URLSearchParams(location.search).get("served");

/** That file, as it is now; nothing where there is none. */
async function servedFile(name) {
  const answer = name === served && (await fetch("model").catch(() => undefined));
  return answer?.ok ? new File([await answer.blob()], name) : undefined;
}

/** The file with a name that is served with the page or that this browser kept, if there is one. */
export async function keptFile(name) {
  const file = await servedFile(name);
  if (file) return file;
  const table = await files("readonly").catch(() => undefined);
  return table && (await asked(table.get(name)))?.file;
}

/** Forgets the kept file with a name; all of them without one. */
async function forgetFile(name) {
  const table = await files("readwrite").catch(() => undefined);
  if (name === undefined) table?.clear();
  else table?.delete(name);
}

/** Hands a text, bytes or the picture on a canvas to the user as a file; the ending replaces that of the name. */
export async function save(content, name, ending) {
  const isPicture = content instanceof HTMLCanvasElement;
  const blob = isPicture ? await new Promise((resolve) => content.toBlob(resolve)) : new Blob([content]);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${name.replace(/\.\w+$/, "")}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** Keeps the page for times without a network. */
export function keepOffline() {
  navigator.serviceWorker?.register(new URL("sw.js", document.baseURI).href).catch(() => {});
}
