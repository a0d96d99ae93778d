// dist/ over HTTP on a free port, as any static host would serve it.

import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

/** The folder of the page; `DIST` names that of another build, to time both side by side. */
export const DIST = process.env.DIST ?? fileURLToPath(new URL('../../dist/', import.meta.url));

const MEDIA_TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.webmanifest': 'application/manifest+json',
  '.wasm': 'application/wasm',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
};

/**
 * Starts the server; `address` ends with a slash, `close` stops it.
 *
 * The page lies under `base`; `change` may give other bytes for a file than those in dist/. With a `line`,
 * all files come through one that is `delay` milliseconds long and lets `rate` bytes a second pass.
 */
export async function serveDist(base = '/', change = (name, body) => body, line = undefined) {
  const send = line ? through(line) : (response, body) => response.end(body);
  const server = createServer((request, response) => answer(request, response, base, change, send));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { address: `http://127.0.0.1:${server.address().port}${base}`, close };
}

/** What has been packed, by its fingerprint: the same file is asked for again and again. */
const packed = new Map();

function gzip(body) {
  const key = createHash('sha256').update(body).digest('hex');
  if (!packed.has(key)) packed.set(key, gzipSync(body, { level: 9 }));
  return packed.get(key);
}

/** Sends through one line that all answers share. */
function through({ delay, rate }) {
  const PACKET = 1400;
  let free = 0;
  return async (response, body) => {
    await setTimeout(delay);
    for (let at = 0; at < body.length; at += PACKET * 8) {
      const part = body.subarray(at, at + PACKET * 8);
      const now = performance.now();
      free = Math.max(free, now) + (part.length / rate) * 1000;
      await setTimeout(free - now);
      response.write(part);
    }
    response.end();
  };
}

async function answer(request, response, base, change, send) {
  // URL and normalize() both resolve `..`, so that no path leads out of dist/.
  const path = normalize(decodeURIComponent(new URL(request.url, 'http://host').pathname));
  const inside = `/${path.slice(base.length)}`;
  const name = inside.endsWith('/') ? `${inside}index.html` : inside;
  try {
    if (!path.startsWith(base)) throw new Error('outside');
    const body = await change(name, await readFile(join(DIST, name)));
    const type = MEDIA_TYPES[extname(name)] ?? 'application/octet-stream';
    const headers = { 'content-type': type, 'x-content-type-options': 'nosniff' };
    // As `_headers` of the page says: what has a fingerprint in its name is kept.
    if (/-[0-9a-f]{8,}(_bg)?\.\w+$/.test(name)) headers['cache-control'] = 'public, max-age=31536000, immutable';
    if (type !== 'image/png' && /\bgzip\b/.test(request.headers['accept-encoding'] ?? '')) {
      response.writeHead(200, { ...headers, 'content-encoding': 'gzip' });
      await send(response, gzip(body));
      return;
    }
    response.writeHead(200, headers);
    await send(response, body);
  } catch {
    response.writeHead(404, { 'content-type': 'text/plain' });
    response.end('not found');
  }
}
