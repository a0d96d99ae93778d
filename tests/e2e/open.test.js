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
  assert.match(await page.locator('h1').first().textContent(), /Will this training run fit/);
  assert.deepEqual(errors, []);
  await takePictures(page, 'open');
});

test('says what to drop and that nothing leaves the page', async () => {
  const { page } = await openPage(browser);
  const text = await page.locator('main').textContent();
  assert.match(text, /Drop a model here/);
  assert.match(text, /Nothing leaves this page/);
  assert.equal(await page.locator('.example').count(), 3);
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
