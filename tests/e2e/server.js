// dist/ over HTTP on a free port, as any static host would serve it.

import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const DIST = fileURLToPath(new URL('../../dist/', import.meta.url));

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
 * The page lies under `base`; `change` may give other bytes for a file than those in dist/.
 */
export async function serveDist(base = '/', change = (name, body) => body) {
  const server = createServer((request, response) => answer(request, response, base, change));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { address: `http://127.0.0.1:${server.address().port}${base}`, close };
}

async function answer(request, response, base, change) {
  // URL and normalize() both resolve `..`, so that no path leads out of dist/.
  const path = normalize(decodeURIComponent(new URL(request.url, 'http://host').pathname));
  const inside = `/${path.slice(base.length)}`;
  const name = inside.endsWith('/') ? `${inside}index.html` : inside;
  try {
    if (!path.startsWith(base)) throw new Error('outside');
    const body = await change(name, await readFile(join(DIST, name)));
    const type = MEDIA_TYPES[extname(name)] ?? 'application/octet-stream';
    response.writeHead(200, { 'content-type': type, 'x-content-type-options': 'nosniff' });
    response.end(body);
  } catch {
    response.writeHead(404, { 'content-type': 'text/plain' });
    response.end('not found');
  }
}
