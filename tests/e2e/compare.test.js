// Two answers on the same axes: settings against settings, model against model.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import {
  OPENED,
  SCREENS,
  accessibilityFaults,
  chooseExample,
  dropFile,
  openExample,
  openPage,
  opened,
  show,
  useBrowser,
  takePictures,
} from './browser.js';

const browser = useBrowser();

/** The rows of the comparison: `name: difference`. */
const rows = (page) =>
  page.locator('.comparison-table tbody tr').evaluateAll((all) =>
    all
      .filter((row) => row.cells.length > 1)
      .map((row) => `${row.cells[0].textContent}: ${row.cells[3].textContent}`),
  );

/** How many pixels of the timeline have the colour of the kept run. */
const accentPixels = (page) =>
  page.locator('.timeline canvas').first().evaluate((canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let at = 0; at < data.length; at += 4) {
      count += Number(data[at] === 0x3a && data[at + 1] === 0x49 && data[at + 2] === 0xc9);
    }
    return count;
  });

/** What is saved as a drawing (SVG). */
async function savedDrawing(page) {
  const download = page.waitForEvent('download');
  await page.locator('summary[title="Save the answer"]').click();
  await page.getByRole('button', { name: 'Drawing (SVG)' }).click();
  return readFile(await (await download).path(), 'utf8');
}

test('an answer is kept, and what changes is told by category and by module', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50', 'compare');
  const panel = page.locator('.comparison');
  await panel.getByRole('button', { name: 'Keep this answer' }).click();
  await panel.getByText('Nothing differs yet').waitFor();
  assert.deepEqual((await rows(page)).slice(0, 2), ['Peak allocated: +0 B', 'Peak reserved: +0 B']);

  await page.getByLabel('optimizer', { exact: true }).selectOption('sgd');
  await panel.getByText('optimizer adamw → sgd').waitFor();
  const settings = await rows(page);
  assert.ok(settings.some((row) => /^optimizer state: \u2212195\sMiB$/.test(row)), settings.join('\n'));
  assert.ok(settings.some((row) => row.startsWith('optimizer: \u2212')), settings.join('\n'));
  await show(page, 'timeline');
  assert.ok((await accentPixels(page)) > 200, 'the kept run is a line on the timeline');
  await page.locator('.timeline-tools').getByRole('button', { name: 'by module' }).click();
  const drawing = await savedDrawing(page);
  assert.match(drawing, />\s*layer1\s*</);
  assert.match(drawing, />\s*Kept: resnet50\.onnx\s*</);
  await show(page, 'compare');
  await panel.scrollIntoViewIfNeeded();
  await takePictures(page, 'compared');
  assert.deepEqual(await accessibilityFaults(page), []);
  await page.setViewportSize(SCREENS.desktop);

  await panel.getByRole('button', { name: 'Restore its settings' }).click();
  await panel.getByText('Nothing differs yet').waitFor();
  assert.equal(await page.getByLabel('optimizer', { exact: true }).inputValue(), 'adamw');

  await chooseExample(page, 'GPT-2');
  await opened(page, 'distilgpt2.onnx');
  await show(page, 'compare');
  await panel.getByText(/Now: /).waitFor();
  await panel.getByText('transformer.h.0').first().waitFor();
  const models = await rows(page);
  assert.ok(models.some((row) => /transformer\.h\.0: \+/.test(row)), models.join('\n'));
  assert.ok(await panel.getByRole('button', { name: 'Restore its settings' }).isHidden());
  await panel.getByRole('button', { name: 'Stop comparing' }).click();
  await panel.getByRole('button', { name: 'Keep this answer' }).waitFor();
  assert.deepEqual(errors, []);
});

test('two files that are dropped together are compared', async () => {
  const { page, errors } = await openPage(browser);
  const files = ['models/train/resnet18.onnx', 'models/train/alexnet.onnx'];
  await dropFile(page, files);
  await opened(page, 'alexnet.onnx');
  await show(page, 'compare');
  const panel = page.locator(`${OPENED} .comparison`);
  await panel.getByText('Kept: resnet18.onnx').waitFor();
  await panel.getByText('Now: alexnet.onnx').waitFor();
  const models = await rows(page);
  assert.ok(models.some((row) => /^parameters: \+/.test(row)), models.join('\n'));
  await show(page, 'timeline');
  assert.ok((await accentPixels(page)) > 200, 'the first file is a line on the timeline');
  await page.locator('.timeline-label-kept', { hasText: 'Kept: resnet18' }).waitFor();
  assert.deepEqual(errors, []);
});

test('of more than two dropped files the others are named', async () => {
  const { page, errors } = await openPage(browser);
  await dropFile(page, ['models/train/alexnet.onnx', 'spec/gpt.yaml', 'models/train/resnet18.onnx']);
  await opened(page, 'gpt.yaml');
  const notice = page.getByRole('alert').filter({ hasText: 'Two models can be compared at a time' });
  await notice.getByText('Not opened: resnet18.onnx.').waitFor();
  assert.deepEqual(errors, []);
});
