// Keeps the page, so that after the first visit it needs no network. A version is kept as a whole or
// not at all. Of two kept versions the older is shown, until the newer one deletes it. Only then does a page see
// the newer one: to change workers under an open page (`skipWaiting`) can leave its requests without an answer.

// Written by the build: every file and its fingerprint.
const FILES = {};

const NAMES = Object.keys(FILES);
const OURS = `highwater ${registration.scope} `;
const CACHE = OURS + fingerprint(new TextEncoder().encode(JSON.stringify(FILES)));
const DOCS = `${registration.scope}docs/`;

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

/** The kept versions of this page, the oldest first. */
async function versions() {
  return (await caches.keys()).filter((name) => name.startsWith(OURS));
}

/** Deletes all other versions; returns whether there were any. */
async function takeOver() {
  const others = (await versions()).filter((name) => name !== CACHE);
  await Promise.all(others.map((name) => caches.delete(name)));
  return others.length > 0;
}

async function activate() {
  await takeOver();
  // A build for work on the page keeps nothing.
  if (NAMES.length === 0) return registration.unregister();
  return clients.claim();
}

async function answer(request) {
  const [place] = request.url.split(/[?#]/);
  const name = place.endsWith("/") ? `${place}index.html` : place;
  const [shown] = await versions();
  const kept = shown && (await caches.match(name, { cacheName: shown, ignoreVary: true }));
  // The documentation is that of the network, where there is one: it needs no part of the program.
  if (kept && place.startsWith(DOCS)) return fetch(request).catch(() => kept);
  return kept ?? fetch(request);
}

addEventListener("install", (event) => event.waitUntil(fetchAll()));
addEventListener("activate", (event) => event.waitUntil(activate()));

/** Whether one page alone shows this site. One that is being reloaded still counts for a moment. */
async function isAlone() {
  for (let tries = 0; tries < 5; tries += 1) {
    const pages = await clients.matchAll({ type: "window", includeUncontrolled: true });
    if (pages.length === 1) return true;
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  return false;
}

/** Lets this version be shown from now on, and tells the page that asked whether it must be reloaded. */
async function replaceFor(page) {
  // Other tabs may still show the version before, and ask for parts of it.
  const mustReload = (await isAlone()) && (await takeOver());
  page.postMessage(mustReload ? "reload" : "go on");
}

addEventListener("message", (event) => event.waitUntil(replaceFor(event.source)));
addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  if (method === "GET" && url.startsWith(registration.scope)) event.respondWith(answer(event.request));
});
