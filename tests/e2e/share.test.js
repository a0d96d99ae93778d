// What is on the page outlives the visit: as an address, a file, a list of what was opened, a sheet of paper.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { inflateRawSync } from 'node:zlib';
import { after, before, test } from 'node:test';
import { accessibilityFaults, dropFile, openExample, openPage, startBrowser, takePictures } from './browser.js';

const ARTIFACTS = fileURLToPath(new URL('./artifacts/', import.meta.url));
const SPEC = `input: [N, 3, 32, 32]
layers:
  - conv2d: {out_channels: 64, kernel_size: 3, padding: 1}
  - relu
  - flatten
  - linear: 10
train: {optimizer: sgd}
`;

let browser;
before(async () => {
  browser = await startBrowser();
  await browser.context.grantPermissions(['clipboard-read', 'clipboard-write']);
});
after(() => browser?.close());

/** The state in an address. */
function stateOf(url) {
  const fragment = new URL(url).hash.slice(1);
  assert.match(fragment, /^v1\.[\w-]+$/);
  return JSON.parse(inflateRawSync(Buffer.from(fragment.slice(3), 'base64url')).toString());
}

/** Whether a state says at least this. */
const says = (state, expected) =>
  Object.entries(expected).every(([key, value]) => isDeepStrictEqual(state?.[key], value));

/** The state in the page's address, once it says what is expected. */
async function addressed(page, expected) {
  let state;
  for (let tries = 0; tries < 60; tries += 1) {
    await page.waitForTimeout(100);
    if (!page.url().includes('#v1.')) continue;
    state = stateOf(page.url());
    if (says(state, expected)) return state;
  }
  return assert.fail(`the address says ${JSON.stringify(state)}`);
}

const optimizer = (page) => page.getByLabel('optimizer', { exact: true });

test('the address follows the state, and brings all of it back', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50');
  await optimizer(page).selectOption('sgd');
  await page.getByRole('button', { name: 'Iteration 2' }).click();
  await addressed(page, { iteration: 2 });
  // A moment elsewhere: the view goes there, and is a stretch of events from then on.
  const plot = page.locator('.timeline-plot');
  await plot.focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  await page.locator('.timeline-pin:visible').waitFor();
  await page.waitForTimeout(700);
  const state = await addressed(page, {
    highwater: 1,
    example: 'resnet50.onnx',
    settings: { optimizer: 'sgd' },
    dims: { batch: 32 },
  });
  assert.ok(state.from < state.event && state.event < state.to, JSON.stringify(state));
  const headline = await page.locator('.headline-lead').textContent();

  const again = await openPage(browser, new URL(page.url()).hash);
  await again.page.locator('.headline').waitFor();
  await again.page.waitForFunction(
    (expected) => document.querySelector('.headline-lead').textContent === expected,
    headline,
  );
  assert.equal(await optimizer(again.page).inputValue(), 'sgd');
  await again.page.locator('.timeline-pin:visible').waitFor();
  await addressed(again.page, state);
  assert.deepEqual([...errors, ...again.errors], []);
  await page.getByRole('button', { name: 'Close this model' }).click();
  assert.equal(new URL(page.url()).hash, '');
});

test('a text is in the address, and its own settings do not go before those shared', async () => {
  const { page } = await openPage(browser);
  await dropFile(page, { name: 'net.yaml', bytes: SPEC });
  await page.locator('.headline').waitFor();
  await optimizer(page).selectOption('adam');
  await addressed(page, { text: 'net.yaml', content: SPEC, settings: { optimizer: 'adam' } });
  const again = await openPage(browser, new URL(page.url()).hash);
  await again.page.locator('.headline').waitFor();
  assert.equal(await again.page.locator('textarea').inputValue(), SPEC);
  await again.page.waitForFunction(
    () => [...document.querySelectorAll('select')].some((select) => select.value === 'adam'),
  );
});

test('of a file there is the name, and its settings wait for it', async () => {
  const { page } = await openPage(browser);
  await dropFile(page, 'models/train/alexnet.onnx');
  await page.locator('.headline').waitFor();
  await optimizer(page).selectOption('lion');
  const state = await addressed(page, { file: 'alexnet.onnx', settings: { optimizer: 'lion' } });
  assert.equal(state.content, undefined);
  const again = await openPage(browser, new URL(page.url()).hash);
  await again.page.getByText('Open alexnet.onnx to see this').waitFor();
  await dropFile(again.page, 'models/train/alexnet.onnx');
  await again.page.locator('.headline').waitFor();
  await again.page.waitForFunction(
    () => [...document.querySelectorAll('select')].some((select) => select.value === 'lion'),
  );
});

test('addresses that mean nothing are told', async () => {
  for (const fragment of ['#v1.AAAA', '#v1.%', '#v9.q1Y']) {
    const { page } = await openPage(browser, fragment);
    await page.getByText('This link cannot be read').waitFor();
    await page.close();
  }
});

test('the link is copied, and what is in it is said', async () => {
  const { page } = await openExample(browser, 'DistilGPT-2');
  await page.locator('summary[aria-label="Share"]').click();
  await page.getByText('The link is copied').waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), page.url());
  assert.match(await page.locator('.share').textContent(), /No weights and no bytes of a file/);
  assert.deepEqual(await accessibilityFaults(page), []);
  await takePictures(page, 'share');
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save it as a file instead' }).click();
  const file = await download;
  assert.equal(file.suggestedFilename(), 'distilgpt2.onnx.highwater.json');
  const bytes = await readFile(await file.path());
  assert.equal(JSON.parse(bytes).example, 'distilgpt2.onnx');
  const again = await openPage(browser);
  await dropFile(again.page, { name: file.suggestedFilename(), bytes });
  await again.page.locator('.headline').waitFor();
});

test('what was opened is remembered until it is forgotten', async () => {
  const { page } = await openPage(browser);
  const rows = page.locator('.recent-row');
  await rows.first().waitFor();
  const before = await rows.count();
  assert.ok(before >= 3);
  await takePictures(page, 'recent');
  assert.deepEqual(await accessibilityFaults(page), []);
  const forget = page.getByRole('button', { name: 'Forget alexnet.onnx' });
  await forget.click();
  // The list is drawn in its turn.
  await forget.waitFor({ state: 'detached' });
  assert.equal(await rows.count(), before - 1);
  await page.getByRole('button', { name: 'net.yaml', exact: false }).first().click();
  await page.locator('.headline').waitFor();
  assert.equal(await page.locator('textarea').inputValue(), SPEC);
  await page.getByRole('button', { name: 'Close this model' }).click();
  await page.getByRole('button', { name: 'Forget all' }).click();
  await rows.first().waitFor({ state: 'detached' });
});

/** Saves the answer in a form. */
async function saved(page, form) {
  const download = page.waitForEvent('download');
  await page.locator('summary[aria-label="Save the answer"]').click();
  await page.getByRole('button', { name: form }).click();
  const file = await download;
  return { name: file.suggestedFilename(), bytes: await readFile(await file.path()) };
}

test('the answer is saved in every form', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50');
  await page.waitForFunction(() => document.querySelectorAll('.gpu-waiting').length === 0);
  const texts = {};
  for (const [form, name] of [
    ['Picture (PNG)', 'resnet50.timeline.png'],
    ['Drawing (SVG)', 'resnet50.timeline.svg'],
    ['Report (Markdown)', 'resnet50.md'],
    ['Answer (JSON)', 'resnet50.json'],
    ['Timeline (CSV)', 'resnet50.timeline.csv'],
    ['Tensors at the peak (CSV)', 'resnet50.tensors.csv'],
    ['GPUs (CSV)', 'resnet50.devices.csv'],
    ['Trace (Perfetto)', 'resnet50.trace.json'],
    ['Memory snapshot (PyTorch)', 'resnet50.pickle'],
  ]) {
    const file = await saved(page, form);
    assert.equal(file.name, name);
    texts[form] = file.bytes;
  }
  assert.deepEqual([...texts['Picture (PNG)'].subarray(1, 4)], [...Buffer.from('PNG')]);
  assert.match(texts['Drawing (SVG)'].toString(), /^<svg[^]* needs [^]*activations[^]*<\/svg>\n$/);
  assert.match(texts['Report (Markdown)'].toString(), /^# GPU memory of training resnet50\.onnx/);
  const json = JSON.parse(texts['Answer (JSON)']);
  assert.equal(json.model.name, 'resnet50.onnx');
  assert.ok(json.devices.length > 30);
  assert.ok(JSON.parse(texts['Trace (Perfetto)']).traceEvents.length > 1000);
  const pickle = texts['Memory snapshot (PyTorch)'];
  assert.deepEqual([pickle[0], pickle[1], pickle.at(-1)], [0x80, 4, '.'.charCodeAt(0)]);
  assert.match(texts['Timeline (CSV)'].toString(), /^event,iteration,phase/);
  const { writeFile, mkdir } = await import('node:fs/promises');
  await mkdir(ARTIFACTS, { recursive: true });
  await writeFile(join(ARTIFACTS, 'timeline.png'), texts['Picture (PNG)']);
  await writeFile(join(ARTIFACTS, 'timeline.svg'), texts['Drawing (SVG)']);
  await page.locator('summary[aria-label="Save the answer"]').click();
  assert.deepEqual(await accessibilityFaults(page), []);
  await takePictures(page, 'save');
  assert.deepEqual(errors, []);
});

test('it prints on one page, in either theme', async () => {
  for (const theme of ['light', 'dark']) {
    const { page } = await openExample(browser, 'ResNet-50');
    await page.emulateMedia({ colorScheme: theme });
    await page.waitForFunction(() => document.querySelectorAll('.gpu-waiting').length === 0);
    const path = join(ARTIFACTS, `print-${theme}.pdf`);
    const pdf = await page.pdf({ path, preferCSSPageSize: true, printBackground: true });
    assert.equal(pdf.toString('latin1').match(/\/Type\s*\/Page\b/g).length, 1);
    await page.close();
  }
});

test('a menu that was open does not outlive its language', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50');
  await page.locator('summary[aria-label="Save the answer"]').click();
  await page.keyboard.press('Escape');
  await page.getByLabel('Language').selectOption('zh-Hans');
  await page.locator('summary[aria-label="保存结果"]').click();
  await page.locator('.menu-item').filter({ visible: true }).first().waitFor();
  await page.locator('.header-language').selectOption('en');
  await page.locator('.headline-lead').getByText(/ needs /).waitFor();
  assert.deepEqual(errors, []);
  await page.close();
});
