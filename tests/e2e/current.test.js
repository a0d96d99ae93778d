// A number on the page is that of the settings beside it: until it is there, its place shows that it is on its way,
// and nothing moves.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import {
  answered,
  dropFile,
  openExample,
  openPage,
  opened,
  paste,
  stateOf,
  unfoldMessage,
  until,
  useBrowser,
} from './browser.js';
import { AXOLOTL, SMI } from './pasted.js';

const browser = useBrowser();

/** The same on a laptop whose GPU is not in the table. */
const SMI_UNKNOWN = SMI.replace('Tesla T4            Off', 'NVIDIA GeForce RTX 4070 ...  Off').replace(
  '2548MiB / 15109MiB',
  ' 742MiB /  8188MiB',
);

/** The settings in an address that are not the defaults. */
const settingsOf = (url) => (new URL(url).hash ? (stateOf(url).settings ?? {}) : {});

/** A printed model of so many layers. */
const printed = (count) =>
  `Net(\n${Array.from({ length: count }, (_, n) => `  (l${n}): Linear(in_features=64, out_features=64, bias=True)`).join('\n')}\n)\n`;

/** Runs inside the page: keeps each state of the answer that was painted, and how far things moved. */
function watch() {
  const texts = (selector) => [...document.querySelectorAll(selector)].map((element) => element.textContent);
  globalThis.painted = [];
  globalThis.moved = [];
  new PerformanceObserver((list) => globalThis.moved.push(...list.getEntries())).observe({ type: 'layout-shift' });
  const look = () => {
    const [rest = ''] = texts('.answer .headline-rest');
    const state = {
      lead: texts('.answer .headline-lead').join(),
      largest: rest.match(/(Largest batch|Not even a batch)[^.]*(\.\d[^.]*)*\./)?.[0] ?? '',
      needs: texts('.answer .gpu-card-need'),
      batches: texts('.answer .gpu-card-batch').map((text) => text.replace(/largest batch not searched/, '')),
      parts: texts('.answer .need-part dd'),
      time: texts('.answer .headline-time').join(),
      isBusy: document.querySelector('.answer')?.getAttribute('aria-busy') === 'true',
    };
    const text = JSON.stringify(state);
    if (globalThis.painted.at(-1) !== text) globalThis.painted.push(text);
    requestAnimationFrame(look);
  };
  look();
}

/** Does something to the settings; gives the states that were painted since, the last of which is the answer. */
async function states(page, act) {
  await answered(page);
  await page.evaluate(() => globalThis.painted.splice(0));
  await act();
  await page.locator('.answer[aria-busy="true"]').waitFor();
  await answered(page);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const painted = await page.evaluate(() => globalThis.painted.splice(0));
  // The first may be of before the change.
  return painted.map((text) => JSON.parse(text)).slice(1);
}

/** SUM of how far things moved since the last call, as browsers count it; those after a click, too. */
const shift = (page) =>
  page.evaluate(() => globalThis.moved.splice(0).reduce((sum, entry) => sum + entry.value, 0));

/** Whether a text has numbers that are none of the final one, where it is not on its way. */
const isOther = (text, last) => !text.includes('…') && text !== '' && text !== last;

test('no number of the settings before stands beside those of now', async () => {
  const { page, errors } = await openPage(browser);
  await page.getByRole('combobox', { name: 'Open a model' }).fill('llama 3.1 8b');
  await page.getByRole('option', { name: 'Llama 3.1 8B meta-llama' }).click();
  await opened(page, 'Llama 3.1 8B');
  await answered(page);
  await page.evaluate(watch);
  const largest = [];
  for (const method of ['QLoRA', 'Full']) {
    const painted = await states(page, () => page.getByRole('radio', { name: method, exact: true }).check({ force: true }));
    const last = painted.at(-1);
    assert.equal(last.isBusy, false);
    assert.ok(!JSON.stringify(last).includes('…'), JSON.stringify(last));
    for (const state of painted) {
      const said = `${method}: ${JSON.stringify(state)}, at last ${JSON.stringify(last)}`;
      for (const part of ['lead', 'largest', 'time']) assert.ok(!isOther(state[part], last[part]), said);
      for (const part of ['needs', 'batches', 'parts']) {
        state[part].forEach((text, at) => assert.ok(!isOther(text, last[part][at]), said));
      }
      if (JSON.stringify(state).includes('…')) assert.ok(state.isBusy, said);
    }
    largest.push(last.largest);
  }
  assert.notEqual(largest[0], largest[1]);
  assert.deepEqual(errors, []);
});

test('another batch moves nothing on the page', async () => {
  const { page } = await openExample(browser, 'ResNet-50');
  await answered(page);
  await page.evaluate(watch);
  for (const batch of ['64', '900', '2000', '7', '33', '32']) {
    await shift(page);
    await states(page, () => page.getByRole('spinbutton', { name: 'batch' }).fill(batch));
    const far = await shift(page);
    assert.ok(far <= 0.01, `batch ${batch}: ${far}`);
  }
});

test('a popular run opens without anything moving', async () => {
  const { page } = await openPage(browser);
  await page.evaluate(watch);
  await shift(page);
  await page.getByRole('button', { name: 'Llama 3.1 8B QLoRA, RTX 4090' }).click();
  await opened(page, 'Llama 3.1 8B');
  await answered(page);
  const far = await shift(page);
  assert.ok(far <= 0.01, far);
});

test('weights next to their model are part of it, and no second file', async () => {
  const { page, errors } = await openPage(browser);
  const bytes = await readFile(new URL('../fixtures/models/train/resnet18.onnx', import.meta.url));
  for (const names of [['model.onnx', 'model.onnx.data'], ['b.onnx_data', 'b.onnx']]) {
    const files = names.map((name) => ({ name, bytes: name.endsWith('.onnx') ? bytes : Buffer.alloc(4096, 7) }));
    await dropFile(page, files);
    await opened(page, names.find((name) => name.endsWith('.onnx')));
    await answered(page);
    assert.equal(await page.locator('.notice').count(), 0);
  }
  assert.deepEqual(errors, []);
});

test('figures of a GPU that is not known change no other', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50');
  await answered(page);
  const numbers = () => page.locator('.gpu-card-need, .gpu-card-batch').allTextContents();
  const before = await numbers();
  await paste(page, SMI_UNKNOWN);
  await unfoldMessage(page);
  await answered(page);
  assert.match(await page.locator('.headline-lead').textContent(), /fits on an A100 80 GB: it needs [\d.]+ of 79\.1/);
  assert.deepEqual(await numbers(), before);
  // Who wants them on the chosen GPU applies them: they are those of that one alone.
  await page.getByRole('button', { name: 'Apply total memory' }).click();
  await page.locator('.headline-lead', { hasText: 'set to 8.00' }).waitFor();
  await answered(page);
  const after = await numbers();
  const own = before.findIndex((text) => text.includes('of 79.1'));
  const changed = after.filter((text, at) => text !== before[at]);
  assert.ok(own >= 0 && changed.length <= 2, `${before.join('; ')} became ${after.join('; ')}`);
  assert.deepEqual(errors, []);
});

test('a drop replaces what is opening, whatever the worker is busy with', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50');
  // It takes many times as long as anybody waits.
  await dropFile(page, { name: 'long.txt', bytes: Buffer.from(printed(15_000)) });
  await page.locator('.chip-busy', { hasText: 'long.txt' }).waitFor();
  await dropFile(page, 'spec/gpt.yaml');
  await opened(page, 'gpt.yaml');
  // What is refused leaves the model that was there, with its worker.
  await dropFile(page, { name: 'long.txt', bytes: Buffer.from(printed(15_000)) });
  await page.locator('.chip-busy', { hasText: 'long.txt' }).waitFor();
  await dropFile(page, { name: 'nothing.bin', bytes: Buffer.from('no model') });
  await page.locator('.notice', { hasText: 'nothing.bin' }).waitFor();
  await page.locator('.chip', { hasText: 'gpt.yaml' }).waitFor();
  const size = page.getByRole('spinbutton').first();
  await size.fill(String(Number(await size.inputValue()) + 1));
  await answered(page);
  assert.deepEqual(errors, []);
});

test('what a model, a recipe or a message brought goes with it, and what was chosen stays', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50');
  const set = () => settingsOf(page.url());
  await page.getByLabel('optimizer', { exact: true }).selectOption('sgd');
  await paste(page, SMI);
  await until(page, 'the GPU of the message in the address', () => set().device === 't4');
  await dropFile(page, { name: 'axolotl.yaml', bytes: Buffer.from(AXOLOTL) });
  await opened(page, 'axolotl');
  await answered(page);
  await until(page, 'the adapters of the recipe in the address', () => set().lora);
  assert.equal(await page.locator('#message', { hasText: 'This machine has' }).count(), 0);
  await dropFile(page, 'models/train/resnet18.onnx');
  await opened(page, 'resnet18');
  await answered(page);
  await until(page, 'the next file in the address', () => !set().lora);
  const next = set();
  for (const brought of ['lora', 'loss', 'quantize', 'capacity', 'other-processes', 'device', 'dropout']) {
    assert.equal(next[brought], undefined, `${brought}: ${JSON.stringify(next)}`);
  }
  assert.equal(next.optimizer, 'sgd', JSON.stringify(next));
  assert.deepEqual(errors, []);
});
