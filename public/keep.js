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

/** Puts a fragment into the page's address; an empty one takes it away. */
export function show(fragment) {
  history.replaceState(null, "", fragment ? `#${fragment}` : location.pathname + location.search);
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
  keep(place < 0 ? [] : recent().filter((_, at) => at !== place));
}

function keep(list) {
  try {
    localStorage.setItem(KEY, JSON.stringify(list));
  } catch {
    // A browser that keeps nothing has no list.
  }
}

/** Saves the answer in some form; what makes it is fetched now. */
export const save = async (...what) => (await import("./export.js")).save(...what);

/** Keeps the page for times without a network. */
export function keepOffline() {
  navigator.serviceWorker?.register(new URL("sw.js", document.baseURI).href).catch(() => {});
}
