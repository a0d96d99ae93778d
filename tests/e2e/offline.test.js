// After the first visit the page needs no network; it lies under any path, and talks to nobody else.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  answered,
  chooseEntry,
  chooseExample,
  dropFile,
  openPage,
  opened,
  show,
  until,
  useBrowser,
} from './browser.js';
import { DIST, serveDist } from './server.js';

const POLICY =
  "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; font-src 'self'; img-src 'self'; " +
  "connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'";

const browser = useBrowser({ serviceWorkers: 'allow' });

/** Waits until the page is kept, and served from what is kept. */
async function kept(page) {
  await page.waitForFunction(() => navigator.serviceWorker.controller !== null);
}

test('works without a network after the first visit', async () => {
  const { page, errors } = await openPage(browser);
  await kept(page);
  await browser.context.setOffline(true);
  try {
    await page.reload();
    await page.locator('.sample .headline-lead').waitFor();
    await chooseExample(page, 'ViT');
    await opened(page);
    await show(page, 'gpus');
    await page.locator('.gpu-filter').getByRole('button', { name: 'all', exact: true }).click();
    // What cuDNN chooses on other cards is kept as well.
    await page.locator('.gpu-table tbody tr', { hasText: /H100 SXM.*fits/ }).waitFor();
    await page.getByLabel('optimizer', { exact: true }).selectOption('sgd');
    await answered(page);
    await page.getByRole('button', { name: 'Close this model' }).click();
    await chooseEntry(page, 'Write a model');
    await opened(page);
    await page.getByLabel('Language').selectOption('zh-Hans');
    await page.locator('html[lang="zh-Hans"]').waitFor();
    const download = page.waitForEvent('download');
    // The second menu saves the answer, whatever it is called now.
    await page.locator('.menu-quiet').nth(1).locator('summary').click();
    await page.locator('.menu-quiet').nth(1).locator('.menu-item').nth(3).click();
    await download;
    assert.deepEqual(errors, []);
  } finally {
    await browser.context.setOffline(false);
  }
});

test('its policy allows its own origin and nothing else', async () => {
  const { page } = await openPage(browser);
  const policy = page.locator('meta[http-equiv="Content-Security-Policy"]');
  assert.equal(await policy.getAttribute('content'), POLICY);
  // As it is served: the page's own program places what it draws, which the policy allows.
  const served = await (await page.request.get(browser.address)).text();
  assert.doesNotMatch(served, /<style|\sstyle=|<script(?![^>]*\ssrc=)/);
});

test('asks for nothing while a dropped file is estimated', async () => {
  const { page, loaded, requests } = await openPage(browser);
  await kept(page);
  loaded();
  await dropFile(page, 'models/train/alexnet.onnx');
  await opened(page);
  await show(page, 'gpus');
  await answered(page);
  assert.deepEqual(requests, []);
});

test('can be installed', async () => {
  const { page } = await openPage(browser);
  const href = await page.locator('link[rel="manifest"]').getAttribute('href');
  const manifest = await (await page.request.get(new URL(href, browser.address).href)).json();
  assert.equal(manifest.display, 'standalone');
  for (const { src } of manifest.icons) {
    const response = await page.request.get(new URL(src, browser.address).href);
    assert.equal(response.status(), 200, src);
  }
});

test('a newer version replaces the one before as a whole', async () => {
  const marked = (text) => text.replace('<title>', '<title>Newer ');
  let newer = false;
  const server = await serveDist('/', async (name, body) => {
    if (!newer) return body;
    if (name === '/index.html') return Buffer.from(marked(body.toString()));
    if (name !== '/sw.js') return body;
    // As the build writes it, with the fingerprint of the other page.
    const index = await readFile(join(DIST, 'index.html'), 'utf8');
    const hash = Buffer.from(marked(index)).reduce(
      (sum, byte) => Math.imul(sum ^ byte, 0x01000193),
      0x811c9dc5 | 0,
    );
    const mark = (hash >>> 0).toString(16);
    return Buffer.from(body.toString().replace(/("index\.html": ")\w+/, `$1${mark}`));
  });
  try {
    const page = await browser.context.newPage();
    await page.goto(server.address);
    await kept(page);
    newer = true;
    await page.evaluate(async () => {
      const registration = await navigator.serviceWorker.getRegistration();
      await registration.update();
    });
    const isWaiting = async () =>
      Boolean((await navigator.serviceWorker.getRegistration()).waiting);
    await until(page, 'a newer version waits', () => page.evaluate(isWaiting));
    assert.doesNotMatch(await page.title(), /^Newer/);
    await page.reload();
    await page.waitForFunction(() => document.title.startsWith('Newer'));
    await chooseExample(page, 'ResNet-50');
    await opened(page);
    assert.equal((await page.evaluate(() => caches.keys())).length, 1);
    await page.close();
  } finally {
    await server.close();
  }
});

test('lies under any path', async () => {
  const server = await serveDist('/some/sub/path/');
  try {
    const { page, errors, requests } = await openPage({ ...browser, address: server.address });
    await kept(page);
    await chooseExample(page, 'ResNet');
    await opened(page);
    const outside = requests.filter((url) => !url.startsWith(server.address) && !url.startsWith('blob:'));
    assert.deepEqual([...errors, ...outside], []);
    await page.close();
  } finally {
    await server.close();
  }
});
