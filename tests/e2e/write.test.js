// A model written, pasted or dropped as text: an answer at every keystroke, or a reason with its place.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  OPENED,
  accessibilityFaults,
  chooseEntry,
  dropFile,
  openPage,
  opened,
  paste,
  peakBytes,
  useBrowser,
  takePictures,
  until,
} from './browser.js';

const browser = useBrowser();

/** Elements in view whose text or ground has the colour of a fit, as the reader sees them. */
const greens = (page) =>
  page.evaluate(() => {
    const isGreen = (colour) => {
      const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number);
      return a > 0 && g > r + 24 && g > b + 24;
    };
    const isGrey = (element) => element.closest('.gpu-strip-outdated') !== null;
    const seen = [...document.querySelectorAll('.answer *')].filter((one) => one.checkVisibility());
    return seen
      .filter((one) => !isGrey(one))
      .filter((one) => isGreen(getComputedStyle(one).color) || isGreen(getComputedStyle(one).backgroundColor))
      .map((one) => one.className);
  });

const editor = (page) => page.getByRole('textbox', { name: 'Model as text' });

test('a model is written, and what is wrong with it is said where it is', async () => {
  const { page, errors, requests, loaded } = await openPage(browser);
  loaded();
  await chooseEntry(page, 'Write a model');
  await opened(page);
  const before = await peakBytes(page);
  const text = await editor(page).inputValue();
  await editor(page).fill(text.replace('256', '8192'));
  await until(page, 'a higher peak', async () => (await peakBytes(page)) > before);
  await takePictures(page, 'writing');
  await editor(page).fill(text.replace('relu', 'relux'));
  await page.locator('.source .problem').waitFor();
  assert.match(await page.locator('.source .problem').textContent(), /line 4.*relux/i);
  // Nothing green is left of the answer before.
  await page.getByText('The last valid answer').waitFor();
  await page.locator('.gpu-strip-outdated').waitFor();
  assert.equal(await page.locator('.headline-sign').textContent(), '–');
  assert.deepEqual(await greens(page), []);
  await page.getByRole('button', { name: 'Go there', exact: true }).click();
  const selected = () =>
    editor(page).evaluate((area) => area.value.slice(area.selectionStart, area.selectionEnd));
  assert.equal(await selected(), 'relux');
  await takePictures(page, 'written-wrong');
  assert.deepEqual(await accessibilityFaults(page), []);
  await page.keyboard.type('gelu');
  await page.locator('.source .problem').waitFor({ state: 'detached' });
  await page.getByText('The last valid answer').waitFor({ state: 'detached' });
  assert.equal(await page.locator('.gpu-strip-outdated').count(), 0);
  assert.deepEqual(requests, []);
  assert.deepEqual(errors, []);
});

test('a pasted text is opened, and one that is no model stays in the editor', async () => {
  const { page, errors } = await openPage(browser);
  await paste(page, 'layers: [flatten, {linear: 10}]\ninput: [N, 3, 32, 32]\n');
  await opened(page);
  assert.equal(await page.locator('.chip-text').textContent(), 'pasted text');
  const first = await peakBytes(page);
  await paste(page, 'Dear colleague, will it fit?');
  await page.locator('.source .problem').waitFor();
  assert.equal(await editor(page).inputValue(), 'Dear colleague, will it fit?');
  assert.equal(await peakBytes(page), first);
  assert.deepEqual(errors, []);
});

test('a dropped spec can be edited, and its training section is taken', async () => {
  const { page, errors } = await openPage(browser);
  await dropFile(page, 'spec/gpt.yaml');
  await opened(page);
  // The editor is closed until somebody wants it.
  assert.equal(await page.locator('.source').count(), 0);
  await page.getByRole('button', { name: 'Edit the model' }).click();
  assert.match(await editor(page).inputValue(), /transformer_block/);
  assert.match(await page.locator('.facts').textContent(), /layer spec/);
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save spec' }).click();
  assert.equal((await saved).suggestedFilename(), 'model.yaml');
  await page.getByRole('button', { name: 'Close the editor' }).click();
  assert.equal(await page.locator('.source').count(), 0);
  assert.match(await page.locator(`${OPENED} .headline-lead`).textContent(), / needs /);
  assert.deepEqual(errors, []);
});
