// What is on the page outlives the visit: as an address, a file, a list of what was opened, a sheet of paper.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { deflateRawSync } from 'node:zlib';
import { test } from 'node:test';
import {
  accessibilityFaults,
  answered,
  chooseEntry,
  chooseExample,
  dropFile,
  openExample,
  openPage,
  opened,
  show,
  stateOf,
  useBrowser,
  takePictures,
} from './browser.js';

const ARTIFACTS = fileURLToPath(new URL('./artifacts/', import.meta.url));
const SPEC = `input: [N, 3, 32, 32]
layers:
  - conv2d: {out_channels: 64, kernel_size: 3, padding: 1}
  - relu
  - flatten
  - linear: 10
train: {optimizer: sgd}
`;

const browser = useBrowser({ permissions: ['clipboard-read', 'clipboard-write'] });

/** Whether a state says at least this. */
const says = (state, expected) =>
  Object.entries(expected).every(([key, value]) => isDeepStrictEqual(state?.[key], value));

/** The state in the page's address, once it says what is expected, or what a check accepts. */
async function addressed(page, expected) {
  const is = typeof expected === 'function' ? expected : (state) => says(state, expected);
  await page.waitForURL((url) => url.hash.startsWith('#v1.') && is(stateOf(url.href)));
  return stateOf(page.url());
}

/** Names of the files that the browser keeps. */
const keptNames = (page) =>
  page.evaluate(
    () =>
      new Promise((resolve) => {
        indexedDB.open('highwater', 1).onsuccess = ({ target }) => {
          const names = target.result.transaction('files').objectStore('files').getAllKeys();
          names.onsuccess = () => resolve(names.result);
        };
      }),
  );

/** Opens the editor of a model that was not written here. */
async function openEditor(page) {
  if (!(await page.locator('.source').count())) await page.getByRole('button', { name: 'Edit the model' }).click();
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
  const state = await addressed(page, ({ from, event, to }) => from < event && event < to);
  const settings = { highwater: 1, example: 'resnet50.onnx', settings: { optimizer: 'sgd' }, dims: { batch: 32 } };
  assert.ok(says(state, settings), JSON.stringify(state));
  const headline = await page.locator('.headline-lead').textContent();

  const again = await openPage(browser, new URL(page.url()).hash);
  await opened(again.page);
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
  await opened(page);
  await optimizer(page).selectOption('adam');
  await addressed(page, { text: 'net.yaml', content: SPEC, settings: { optimizer: 'adam' } });
  const again = await openPage(browser, new URL(page.url()).hash);
  await opened(again.page);
  await openEditor(again.page);
  assert.equal(await again.page.locator('textarea').inputValue(), SPEC);
  await again.page.waitForFunction(
    () => [...document.querySelectorAll('select')].some((select) => select.value === 'adam'),
  );
});

test('of a file there is the name, and elsewhere its settings wait for it', async () => {
  const { page } = await openPage(browser);
  await dropFile(page, 'models/train/alexnet.onnx');
  await opened(page);
  await optimizer(page).selectOption('lion');
  const state = await addressed(page, { file: 'alexnet.onnx', settings: { optimizer: 'lion' } });
  assert.equal(state.content, undefined);
  // A browser that does not have the file asks for it.
  const other = await browser.fresh();
  const address = browser.address + new URL(page.url()).hash;
  const again = await openPage({ context: other, address });
  await again.page.getByText('Open alexnet.onnx to see this').waitFor();
  await dropFile(again.page, 'models/train/alexnet.onnx');
  await opened(again.page);
  await again.page.waitForFunction(
    () => [...document.querySelectorAll('select')].some((select) => select.value === 'lion'),
  );
  await other.close();
});

test('a file that is served with the page opens by its address', async () => {
  const state = { highwater: 1, file: 'alexnet.onnx', dims: { batch: 8 }, settings: { optimizer: 'lion' } };
  const fragment = `#v1.${deflateRawSync(JSON.stringify(state)).toString('base64url')}`;
  const context = await browser.fresh();
  const body = await readFile(new URL('../fixtures/models/train/alexnet.onnx', import.meta.url));
  await context.route('**/model', (route) => route.fulfill({ body }));
  const { address } = browser;
  const { page, errors } = await openPage({ context, address }, `?served=alexnet.onnx${fragment}`);
  await opened(page);
  await addressed(page, state);
  assert.match(page.url(), /\?served=alexnet\.onnx#/);
  assert.equal(await optimizer(page).inputValue(), 'lion');
  assert.deepEqual(errors, []);
  await context.close();
  // Another name is not the file that is served.
  const other = await browser.fresh();
  await other.route('**/model', (route) => route.fulfill({ body }));
  const asked = await openPage({ context: other, address }, `?served=other.onnx${fragment}`);
  await asked.page.getByText('Open alexnet.onnx to see this').waitFor();
  await other.close();
});

test('addresses that mean nothing are told', async () => {
  for (const fragment of ['#v1.AAAA', '#v1.%', '#v9.q1Y']) {
    const { page } = await openPage(browser, fragment);
    await page.getByText('This link cannot be read').waitFor();
    // The page is empty, as without it.
    await page.locator('.sample .headline-lead').waitFor();
    await page.close();
  }
});

test('the link is copied, and what is in it is said', async () => {
  const { page } = await openExample(browser, 'DistilGPT-2');
  await page.locator('summary[aria-label="Share"]').click();
  await page.getByText(/^The link is copied \([\d,]+ characters\)\.$/).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), page.url());
  assert.match(await page.locator('.share').textContent(), /It contains no weights\. The part after # never leaves your browser\./);
  assert.deepEqual(await accessibilityFaults(page), []);
  await takePictures(page, 'share');
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByText('Embed this answer in a page').click();
  await page.locator('#embed-code').getByRole('button', { name: 'Copy' }).click();
  const frame = await page.evaluate(() => navigator.clipboard.readText());
  const { origin, pathname, hash } = new URL(page.url());
  assert.equal(/ src="([^"]+)"/.exec(frame)?.[1], `${origin}${pathname}?embed=1${hash}`);
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save it as a file instead' }).click();
  const file = await download;
  assert.equal(file.suggestedFilename(), 'distilgpt2.onnx.highwater.json');
  const bytes = await readFile(await file.path());
  assert.equal(JSON.parse(bytes).example, 'distilgpt2.onnx');
  const again = await openPage(browser);
  await dropFile(again.page, { name: file.suggestedFilename(), bytes });
  await opened(again.page);
});

test('what was opened is remembered until it is forgotten', async () => {
  const { page } = await openPage(browser);
  await dropFile(page, { name: 'net.yaml', bytes: SPEC });
  await opened(page, 'net.yaml');
  await addressed(page, { text: 'net.yaml' });
  await dropFile(page, 'models/train/alexnet.onnx');
  await opened(page, 'alexnet.onnx');
  await addressed(page, { file: 'alexnet.onnx' });
  await page.getByRole('button', { name: 'Close this model' }).click();
  await page.locator('.hero').waitFor();
  const field = page.locator('#open');
  const entries = page.locator('.open-entry-title');
  await field.click();
  const before = await entries.allTextContents();
  // Examples are there anyway: what was opened comes after them, before the editor.
  assert.deepEqual(before.slice(0, 3), ['ResNet-50', 'ViT-B/16', 'DistilGPT-2']);
  assert.ok(before.includes('alexnet.onnx') && before.includes('net.yaml'), before.join());
  assert.equal(before.at(-1), 'Write a model');
  await takePictures(page, 'recent');
  assert.deepEqual(await accessibilityFaults(page), []);
  // The key for those who have no pointer, and the cross for those who have one.
  for (let at = 0; at <= before.indexOf('alexnet.onnx'); at += 1) await field.press('ArrowDown');
  await field.press('Delete');
  await page.locator('.open-entry', { hasText: 'alexnet.onnx' }).waitFor({ state: 'detached' });
  assert.deepEqual(await entries.allTextContents(), before.filter((name) => name !== 'alexnet.onnx'));
  await chooseEntry(page, 'net.yaml');
  await opened(page);
  await openEditor(page);
  assert.equal(await page.locator('textarea').inputValue(), SPEC);
  await page.getByRole('button', { name: 'Close this model' }).click();
  await page.locator('.hero').waitFor();
  await field.click();
  await page.locator('.open-entry', { hasText: 'net.yaml' }).locator('.open-entry-forget').click();
  await page.locator('.open-entry', { hasText: 'net.yaml' }).waitFor({ state: 'detached' });
  await page.reload();
  await field.click();
  assert.equal(await page.locator('.open-entry', { hasText: /alexnet|net\.yaml/ }).count(), 0);
  // The kept bytes are gone with their entry.
  const kept = await keptNames(page);
  assert.ok(!kept.includes('alexnet.onnx'), kept.join());
});

test('a dropped file is there after a reload, and Back goes to the model before, then to the empty page', async () => {
  const { page, errors } = await openPage(browser);
  await chooseExample(page, 'ViT-B/16');
  await opened(page);
  await addressed(page, { example: 'vit_b_16.onnx' });
  await dropFile(page, 'models/train/resnet18.onnx');
  await opened(page, 'resnet18.onnx');
  await addressed(page, { file: 'resnet18.onnx' });
  await page.reload();
  await opened(page, 'resnet18.onnx');
  await opened(page);
  await page.goBack();
  await opened(page, 'vit_b_16.onnx');
  await page.goBack();
  await page.locator('.hero').waitFor();
  await page.locator('.sample .headline-lead').waitFor();
  assert.equal(new URL(page.url()).hash, '');
  await page.goForward();
  await opened(page, 'vit_b_16.onnx');
  await page.goForward();
  await opened(page, 'resnet18.onnx');
  assert.deepEqual(errors, []);
  await page.close();
});

test('a model that is written has an entry of its own: Back goes to the empty page', async () => {
  const { page, errors } = await openPage(browser);
  const before = await page.evaluate(() => history.length);
  await chooseEntry(page, 'Write a model');
  await opened(page);
  await addressed(page, { text: 'new model', editing: true });
  assert.equal(await page.evaluate(() => history.length), before + 1);
  // Typing changes the entry and makes no other.
  await page.getByRole('textbox', { name: 'Model as text' }).fill(SPEC);
  await addressed(page, { content: SPEC });
  assert.equal(await page.evaluate(() => history.length), before + 1);
  await page.goBack();
  await page.locator('.hero').waitFor();
  await page.locator('.sample .headline-lead').waitFor();
  assert.equal(new URL(page.url()).hash, '');
  await page.goForward();
  await opened(page);
  assert.equal(await page.locator('textarea').inputValue(), SPEC);
  assert.deepEqual(errors, []);
  await page.close();
});

test('after a reload the editor is as it was: closed for a dropped file', async () => {
  const { page, errors } = await openPage(browser);
  await dropFile(page, { name: 'net.yaml', bytes: SPEC });
  await opened(page);
  await addressed(page, { text: 'net.yaml', editing: false });
  await page.reload();
  await opened(page, 'net.yaml');
  assert.equal(await page.locator('.source').count(), 0);
  await page.getByRole('button', { name: 'Edit the model' }).click();
  await addressed(page, { text: 'net.yaml', editing: true });
  await page.reload();
  await opened(page, 'net.yaml');
  await page.locator('.source').waitFor();
  assert.deepEqual(errors, []);
  await page.close();
});

test('a kept file is opened by one choice, and all can be forgotten at once', async () => {
  const { page, errors } = await openPage(browser);
  await dropFile(page, 'models/train/resnet18.onnx');
  await opened(page, 'resnet18.onnx');
  await addressed(page, { file: 'resnet18.onnx' });
  await page.getByRole('button', { name: 'Close this model' }).click();
  await page.locator('.hero').waitFor();
  await page.locator('#open').click();
  const entry = page.locator('.open-entry', { hasText: 'resnet18.onnx' });
  assert.match(await entry.textContent(), /file, kept here/);
  await entry.click();
  await opened(page, 'resnet18.onnx');
  await page.getByRole('button', { name: 'Close this model' }).click();
  await page.locator('.hero').waitFor();
  await chooseEntry(page, 'Forget all');
  await page.locator('#open').click();
  assert.deepEqual(await page.locator('.open-entry-title').allTextContents(), [
    'ResNet-50',
    'ViT-B/16',
    'DistilGPT-2',
    'Write a model',
  ]);
  assert.deepEqual(await keptNames(page), []);
  assert.deepEqual(errors, []);
  await page.close();
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
  await show(page, 'gpus');
  await answered(page);
  await page.waitForFunction(() =>
    [...document.querySelectorAll('.gpu-card-batch')].every((cell) => /\d/.test(cell.textContent)),
  );
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
  // The same GPUs as the cards, in their order and in their words.
  const cards = await page.locator('.gpu-card .gpu-card-batch').allTextContents();
  const drawn = [...texts['Drawing (SVG)'].toString().matchAll(/>\s*(largest batch [\d,]+)\s*</g)];
  assert.deepEqual(drawn.map(([, text]) => text), cards);
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

test('it prints on one page, in either theme and from any section', async () => {
  for (const [theme, section, example] of [
    ['light', 'timeline', 'ResNet-50'],
    ['dark', 'compare', 'DistilGPT-2'],
  ]) {
    const { page } = await openExample(browser, example, section);
    await page.emulateMedia({ colorScheme: theme });
    await page.waitForFunction(() =>
      [...document.querySelectorAll('.gpu-card-batch')].slice(0, 5).every((cell) => /\d/.test(cell.textContent)),
    );
    const path = join(ARTIFACTS, `print-${theme}.pdf`);
    const pdf = await page.pdf({ path, preferCSSPageSize: true, printBackground: true });
    assert.equal(pdf.toString('latin1').match(/\/Type\s*\/Page\b/g).length, 1);
    await page.close();
  }
});

test('on paper are the answer, the picture, the GPUs and the assumptions, and nothing is cut', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50', 'growth');
  await page.locator('.gpu-card-h100-80gb .gpu-card-batch', { hasText: /\d/ }).waitFor();
  // A sheet of A4 without its margins, in CSS pixels.
  await page.setViewportSize({ width: 718, height: 1047 });
  await page.evaluate(() => globalThis.dispatchEvent(new Event('beforeprint')));
  await page.emulateMedia({ media: 'print' });
  await page.locator('.section-assumptions .rests-on-rows li').first().waitFor();
  await page.locator('.section-gpus .gpu-name').first().waitFor();
  // All that a row can say.
  await page.waitForFunction(() =>
    [...document.querySelectorAll('.section-gpus .gpu-batch')].every((cell) => /\d/.test(cell.textContent)),
  );
  assert.match(await page.locator('.print-settings').textContent(), /batch 32 · fp32 · AdamW/);
  const printed = await page.locator('.section-gpus .gpu-name').allTextContents();
  for (const gpu of ['T4', 'V100', 'RTX 4090', 'A100', 'H100']) {
    assert.ok(printed.some((name) => name.includes(gpu)), `${gpu} is in ${printed}`);
  }
  // Paper stretches the picture, and what stands on it.
  assert.match(await page.locator('.timeline-peak').evaluate((mark) => mark.style.getPropertyValue('--left')), /^[\d.]+$/);
  const share = await page.locator('.timeline-label').first().evaluate((label) => {
    const [middle, picture] = [label, label.parentElement].map((element) => element.getBoundingClientRect());
    const left = Number(label.style.getPropertyValue('--left'));
    return middle.left + middle.width / 2 - (picture.left + (picture.width * left) / 100);
  });
  assert.ok(Math.abs(share) < 1, `the label is ${share} px from its place`);
  for (const part of ['.headline-lead', '.print-settings', '.gpu-strip', '.need', '.timeline-plot', '.readout', '.gpus', '.rests-on']) {
    assert.ok(await page.locator(part).isVisible(), `${part} is printed`);
  }
  for (const part of ['.header', '.settings', '.tabs', '.trend', '.timeline-tools', '.gpu-filter', '#edit', '#basis']) {
    assert.equal(await page.locator(part).filter({ visible: true }).count(), 0, `${part} is not printed`);
  }
  const below = await page.evaluate(() => {
    const bottom = document.querySelector('main').getBoundingClientRect().bottom;
    const parts = [...document.querySelectorAll('.answer, .timeline, .gpus, .rests-on, .print-link')];
    return parts
      .filter((part) => part.getBoundingClientRect().bottom > bottom + 1)
      .map((part) => part.className);
  });
  assert.deepEqual(below, [], 'cut at the end of the sheet');
  await page.screenshot({ path: join(ARTIFACTS, 'print.png') });
  await page.emulateMedia({ media: null });
  await page.evaluate(() => globalThis.dispatchEvent(new Event('afterprint')));
  await page.locator('.section-assumptions').waitFor({ state: 'hidden' });
  assert.deepEqual(errors, []);
  await page.close();
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
