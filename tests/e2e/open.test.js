// The page opens: quietly, quickly, and without talking to anybody else.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { accessibilityFaults, openPage, startBrowser, takePictures } from './browser.js';

let browser;
before(async () => {
  browser = await startBrowser();
});
after(() => browser?.close());

test('opens without a word on the console', async () => {
  const { page, errors } = await openPage(browser);
  assert.match(await page.title(), /Highwater/);
  assert.deepEqual(errors, []);
  await takePictures(page, 'open');
});

test('asks nobody but its own server', async () => {
  const { requests } = await openPage(browser);
  const elsewhere = requests.filter((url) => !url.startsWith(browser.address));
  assert.deepEqual(elsewhere, []);
});

test('can be used by everybody', async () => {
  const { page } = await openPage(browser);
  assert.deepEqual(await accessibilityFaults(page), []);
});
