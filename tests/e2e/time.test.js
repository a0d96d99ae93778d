// How long a step takes: the line of the answer, the tab, the axis of the timeline, what suggestions cost.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  accessibilityFaults,
  chooseDevice,
  dropFile,
  openExample,
  openPage,
  opened,
  overflowing,
  show,
  useBrowser,
  takePictures,
} from './browser.js';

const SPEC = 'input: [N, 64]\ndims: {N: 32}\nlayers:\n  - linear: 128\n';

const browser = useBrowser();

const line = (page) => page.locator('.headline-time');
const rate = async (page) => {
  const text = await line(page).textContent();
  return Number(/: ([\d.,]+) samples per second/.exec(text)?.[1].replaceAll(',', ''));
};

test('the answer tells how long a step takes, and follows the GPU', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50');
  await line(page).getByText('samples per second').waitFor();
  const first = await rate(page);
  assert.ok(first > 50 && first < 5000, `${first} samples per second`);
  await chooseDevice(page, 't4');
  await line(page).getByText('on T4').waitFor();
  assert.ok((await rate(page)) < first / 2, 'a T4 is slower');
  assert.deepEqual(errors, []);
  await page.close();
});

test('the tab shows where the time goes and all GPUs by speed', async () => {
  const { page, errors } = await openExample(browser, 'DistilGPT-2', 'time');
  await page.getByRole('region', { name: 'GPUs by speed' }).waitFor();
  const gpus = page.getByRole('region', { name: 'GPUs by speed' }).locator('tbody tr');
  const rates = await gpus.evaluateAll((rows) =>
    rows.map((row) => Number(row.cells[2].textContent.replaceAll(',', ''))),
  );
  assert.ok(rates.length >= 20, `${rates.length} GPUs`);
  assert.deepEqual(rates, [...rates].sort((a, b) => b - a));
  const phases = page.getByRole('region', { name: 'Where the time goes' }).locator('tbody tr');
  const names = await phases.evaluateAll((rows) => rows.map((row) => row.cells[0].textContent));
  assert.ok(names.includes('forward') && names.includes('backward'), names.join());
  await page.getByText('tokens per second').first().waitFor();
  const epoch = page.locator('.times-fact', { hasText: 'epoch of' }).locator('dd');
  const before = await epoch.textContent();
  await page.locator('.times-epoch').fill('1000');
  assert.notEqual(await epoch.textContent(), before);
  assert.deepEqual(await accessibilityFaults(page), []);
  await takePictures(page, 'time');
  assert.deepEqual(errors, []);
  await page.close();
});

test('the axis of the timeline can be time, with cursor, pin and zoom', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50');
  await page.getByRole('button', { name: 'time', exact: true }).click();
  await page.locator('.timeline-range').getByText(/ to .*s of /).waitFor();
  const plot = page.locator('.timeline-plot');
  await plot.focus();
  await page.keyboard.press('p');
  const peak = await plot.getAttribute('aria-valuetext');
  await page.keyboard.press('Enter');
  await page.keyboard.press('+');
  await page.getByRole('button', { name: 'events', exact: true }).click();
  await page.locator('.timeline-range').getByText(/^events /).waitFor();
  assert.equal(await plot.getAttribute('aria-valuetext'), peak);
  const place = async () => (await page.locator('.timeline-bounds').getAttribute('style')) ?? '';
  assert.match(await place(), /--bound-[123]/);
  await page.getByRole('button', { name: 'time', exact: true }).click();
  await takePictures(page, 'time-axis');
  assert.deepEqual(await overflowing(page), []);
  assert.deepEqual(errors, []);
  await page.close();
});

test('suggestions state what they cost in time', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50', 'suggestions');
  const lever = page.locator('.lever', { hasText: 'heckpoint' }).first();
  await lever.getByText(/\+\d+\s% time for each sample/).waitFor();
  assert.deepEqual(errors, []);
  await page.close();
});

test('another GPU has times of its own', async () => {
  const { page } = await openExample(browser, 'ResNet-50', 'time');
  const lead = page.locator('.times-lead');
  await lead.waitFor();
  const before = await lead.textContent();
  await chooseDevice(page, 'h20');
  await page.waitForFunction(
    (text) => ![null, undefined, text].includes(document.querySelector('.times-lead')?.textContent),
    before,
  );
  await page.close();
});

test('without its program the panel says so, and the memory is answered all the same', async () => {
  const missing = (route) => route.abort();
  await browser.context.route('**/highwater-time*', missing);
  const { page } = await openPage(browser);
  await dropFile(page, [{ name: 'small.yaml', bytes: SPEC }]);
  await opened(page);
  await show(page, 'time');
  await page.locator('.times').getByText('What computes times did not arrive').waitFor();
  await page.context().unroute('**/highwater-time*', missing);
  await show(page, 'timeline');
  await show(page, 'time');
  await page.locator('.times-lead').waitFor();
  await page.close();
});
