// Keeps the page, so that after the first visit it needs no network. A version is kept as a whole or
// not at all, and the one before goes when the new one takes over.

// Written by the build: every file and its fingerprint.
const FILES = {};

const NAMES = Object.keys(FILES);
const OURS = `highwater ${registration.scope} `;
const CACHE = OURS + fingerprint(new TextEncoder().encode(JSON.stringify(FILES)));
const HOME = [registration.scope, `${registration.scope}index.html`];

/** FNV-1a, as the build computes it. */
function fingerprint(bytes) {
  let hash = 0x811c9dc5;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193);
  return (hash >>> 0).toString(16);
}

async function fetchAll() {
  const cache = await caches.open(CACHE);
  const fetched = NAMES.map(async (name) => {
    const response = await fetch(name === "index.html" ? "./" : name, { cache: "no-cache" });
    const bytes = await response.arrayBuffer();
    if (!response.ok || fingerprint(new Uint8Array(bytes)) !== FILES[name]) {
      throw new Error(`${name} is of another version`);
    }
    // Made anew: a browser does not show a page from a response that was redirected.
    await cache.put(name, new Response(bytes, { headers: response.headers }));
  });
  try {
    await Promise.all(fetched);
  } catch (reason) {
    await caches.delete(CACHE);
    throw reason;
  }
}

async function takeOver() {
  for (const name of await caches.keys()) {
    if (name.startsWith(OURS) && name !== CACHE) await caches.delete(name);
  }
  // A build for work on the page keeps nothing.
  if (NAMES.length === 0) return registration.unregister();
  return clients.claim();
}

async function answer(request) {
  const [place] = request.url.split(/[?#]/);
  const cache = await caches.open(CACHE);
  const kept = await cache.match(HOME.includes(place) ? "index.html" : place, { ignoreVary: true });
  return kept ?? fetch(request);
}

addEventListener("install", (event) => event.waitUntil(fetchAll()));
addEventListener("activate", (event) => event.waitUntil(takeOver()));
/** Whether one page alone shows this site. One that is being reloaded still counts for a moment. */
async function isAlone() {
  for (let tries = 0; tries < 20; tries += 1) {
    const pages = await clients.matchAll({ type: "window", includeUncontrolled: true });
    if (pages.length === 1) return true;
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  return false;
}

addEventListener("message", async ({ source }) => {
  // Other tabs may still show the version before, and ask for parts of it.
  if (await isAlone()) await skipWaiting();
  else source.postMessage("later");
});
addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  if (method === "GET" && url.startsWith(registration.scope)) event.respondWith(answer(event.request));
});
