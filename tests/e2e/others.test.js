// Other estimators about the run on the page.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  accessibilityFaults,
  dropFile,
  openExample,
  openPage,
  opened,
  show,
  useBrowser,
  takePictures,
  until,
} from './browser.js';

const SPEC = 'input: [N, 64]\ndims: {N: 32}\nlayers:\n  - linear: 128\n';

const browser = useBrowser();

const panel = (page) => page.locator('.others');

/** The answers: `name: estimate`. */
const answers = (page) =>
  panel(page).locator('.others-table tbody tr').evaluateAll((rows) =>
    rows.map((row) => `${row.cells[0].textContent.trim()}: ${row.cells[2].textContent.trim()}`),
  );

/** The figure of one of them. */
const figure = async (page, name) => (await answers(page)).find((row) => row.startsWith(`${name}: `));

test('other estimators answer about the run on the page, and follow its settings', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50', 'others');
  await panel(page).getByText('No figure from LLMem').waitFor();
  const first = await answers(page);
  assert.ok(first.length >= 12, first.join('; '));
  assert.match(first[0], /^Highwater: [\d.]+\sGiB$/);
  const need = await page.locator('.gpu-card-chosen .gpu-card-need').textContent();
  assert.ok(first[0].endsWith(` ${need.split(' of ')[0]} GiB`), `${first[0]} is not ${need}`);
  await takePictures(page, 'others');
  assert.deepEqual(await accessibilityFaults(page), []);

  const horus = await figure(page, 'Horus');
  const gib = (row) => Number(/([\d.]+)\sGiB$/.exec(row)?.[1]);
  await page.getByRole('slider', { name: 'batch (slider)' }).press('ArrowRight');
  await until(page, 'a higher figure', async () => gib(await figure(page, 'Horus')) > gib(horus));
  assert.deepEqual(errors, []);
  await page.close();
});

test('where the same training was measured, the truth is shown', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50', 'others');
  await page.getByLabel('optimizer', { exact: true }).selectOption('adam');
  await panel(page).getByText('Measured: 3.84 GiB on A100 40 GB (CARMA, 2025).').waitFor();
  await page.locator('.others-line.others-truth').first().waitFor({ state: 'attached' });
  assert.deepEqual(errors, []);
  await page.close();
});

test('without its program the panel says so, and asks again', async () => {
  const { page } = await openPage(browser);
  const missing = (route) => route.abort();
  await page.context().route('**/highwater-compare*', missing);
  await dropFile(page, [{ name: 'small.yaml', bytes: SPEC }]);
  await opened(page);
  await show(page, 'others');
  await panel(page).getByText('Other estimators did not arrive').waitFor();
  await page.context().unroute('**/highwater-compare*', missing);
  await show(page, 'timeline');
  await show(page, 'others');
  await panel(page).locator('.others-table').waitFor();
  await page.close();
});
