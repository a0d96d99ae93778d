// A model written, pasted or dropped as text: an answer at every keystroke, or a reason with its place.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { accessibilityFaults, dropFile, openPage, paste, startBrowser, takePictures } from './browser.js';

let browser;
before(async () => {
  browser = await startBrowser();
});
after(() => browser?.close());

const peak = (page) => page.locator('.figure-value').first().textContent();
const editor = (page) => page.getByRole('textbox', { name: 'Model as text' });

test('a model is written, and what is wrong with it is said where it is', async () => {
  const { page, errors, requests, loaded } = await openPage(browser);
  loaded();
  await page.getByRole('button', { name: 'Write a model' }).click();
  await page.locator('.headline-lead').waitFor();
  const before = await peak(page);
  const text = await editor(page).inputValue();
  await editor(page).fill(text.replace('256', '8192'));
  await page.waitForFunction(
    (old) => document.querySelector('.figure-value').textContent !== old,
    before,
  );
  await takePictures(page, 'writing');
  await editor(page).fill(text.replace('relu', 'relux'));
  await page.locator('.source .problem').waitFor();
  assert.match(await page.locator('.source .problem').textContent(), /line 4.*relux/i);
  await page.getByRole('button', { name: 'Go there', exact: true }).click();
  const selected = () =>
    editor(page).evaluate((area) => area.value.slice(area.selectionStart, area.selectionEnd));
  assert.equal(await selected(), 'relux');
  await takePictures(page, 'written-wrong');
  assert.deepEqual(await accessibilityFaults(page), []);
  await page.keyboard.type('gelu');
  await page.locator('.source .problem').waitFor({ state: 'detached' });
  assert.deepEqual(requests, []);
  assert.deepEqual(errors, []);
});

test('a pasted text is opened, and one that is no model stays in the editor', async () => {
  const { page, errors } = await openPage(browser);
  await paste(page, 'layers: [flatten, {linear: 10}]\ninput: [N, 3, 32, 32]\n');
  await page.locator('.headline-lead').waitFor();
  assert.equal(await page.locator('.chip-text').textContent(), 'pasted text');
  const first = await peak(page);
  await paste(page, 'Dear colleague, will it fit?');
  await page.locator('.source .problem').waitFor();
  assert.equal(await editor(page).inputValue(), 'Dear colleague, will it fit?');
  assert.equal(await peak(page), first);
  assert.deepEqual(errors, []);
});

test('a dropped spec can be edited, and its training section is taken', async () => {
  const { page, errors } = await openPage(browser);
  await dropFile(page, 'spec/gpt.yaml');
  await page.locator('.headline-lead').waitFor();
  assert.match(await editor(page).inputValue(), /transformer_block/);
  assert.match(await page.locator('.facts').textContent(), /layer spec/);
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save spec' }).click();
  assert.equal((await saved).suggestedFilename(), 'model.yaml');
  await page.getByRole('button', { name: 'Close the editor' }).click();
  assert.equal(await page.locator('.source').count(), 0);
  assert.match(await page.locator('.headline-lead').textContent(), / needs /);
  assert.deepEqual(errors, []);
});
