// A model is opened and estimated: the verdict reads, follows the settings, and survives bad files.

import assert from 'node:assert/strict';
import { closeSync, ftruncateSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  OPENED,
  SCREENS,
  accessibilityFaults,
  answered,
  changesPeak,
  chooseDevice,
  chooseExample,
  deviceField,
  dropFile,
  longestTaskMs,
  openExample,
  openPage,
  opened,
  peakBytes,
  show,
  sideways,
  useBrowser,
  takePictures,
  unfoldSettings,
} from './browser.js';

const VERDICT =
  /needs .+\. .*((Fits on (all|\d+ of)|Does not fit on (any|\d+) of) \d+ GPUs|For all \d+ GPUs the verdict is unknown)/;

const browser = useBrowser();

/** Opens the page and the example with this name. */
async function openJudged(name) {
  const tab = await openExample(browser, name);
  await verdict(tab.page);
  return tab;
}

/** The headline for what is set now, once every device has been looked at; without the time of a step, which comes later. */
async function verdict(page) {
  await opened(page);
  await answered(page);
  const text = (await page.locator('.headline-lead, .headline-rest:not(.headline-time)').allTextContents()).join(' ');
  assert.match(text, VERDICT);
  return text;
}

/** Shows the table of GPUs, with all of them. */
async function showAllGpus(page) {
  await show(page, 'gpus');
  await page.locator('.gpu-filter').getByRole('button', { name: 'all', exact: true }).click();
}

test('an example opens with one request, and its verdict reads', async () => {
  const { page, errors, requests } = await openJudged('ResNet-50');
  assert.match(await verdict(page), / needs [\d.]+ of [\d.]+\sGiB\. [\d.]+\sGiB are allocated at the peak, in the (forward|backward) pass of \S+\./);
  assert.equal(await page.locator('.chip-text').textContent(), 'resnet50.onnx');
  assert.deepEqual(requests, [`${browser.address}examples/resnet50.graph`]);
  assert.deepEqual(errors, []);
  await takePictures(page, 'resnet50');
});

test('without what cuDNN chooses elsewhere, other GPUs do not read as fitting', async () => {
  await browser.context.route('**/choices-*.bin', (route) => route.fulfill({ status: 404 }));
  const { page } = await openJudged('ResNet-50');
  // The GPU that is assumed needs none of them.
  assert.match(await verdict(page), / needs [\d.]+ of [\d.]+\sGiB/);
  await showAllGpus(page);
  const row = (name) => page.locator('.gpu-table tbody tr', { hasText: name }).first();
  assert.match(await row('A100 80 GB').textContent(), /fits/);
  assert.doesNotMatch(await row('H100 SXM').textContent(), /fits/);
  await chooseDevice(page, 't4');
  await show(page, 'assumptions');
  await page.getByText('what cuDNN chooses for these convolutions could not be fetched').first().waitFor();
  await page.close();
});

test('every example has a verdict on every GPU, and a largest batch', async () => {
  for (const name of ['ResNet-50', 'ViT-B/16', 'DistilGPT-2']) {
    const { page, errors } = await openJudged(name);
    await showAllGpus(page);
    const rows = page.locator('.gpu-table tbody tr');
    assert.ok((await rows.count()) > 20);
    assert.equal(await page.locator('.gpu-waiting').count(), 0);
    await page.waitForFunction(() => {
      const cells = [...document.querySelectorAll('.gpu-batch')];
      return cells.length > 20 && cells.every((cell) => /\d/.test(cell.textContent));
    });
    assert.deepEqual(errors, []);
    await page.close();
  }
});

test('a dropped file is read where it is, and the batch changes its verdict', async (t) => {
  const { page, errors, requests, loaded } = await openPage(browser);
  loaded();
  await dropFile(page, 'models/train/resnet18.onnx');
  await verdict(page);
  await longestTaskMs(page);
  await page.getByRole('spinbutton', { name: 'batch' }).fill('256');
  assert.match(await verdict(page), /at batch 256 .+ needs [\d.]+ of [\d.]+\sGiB/);
  await page.getByRole('spinbutton', { name: 'batch' }).fill('100000');
  assert.match(await verdict(page), /Does not fit on an? .+: .+ at batch 100,000 needs .+\s[GT]iB\./);
  t.diagnostic(`longest task while the batch changed: ${await longestTaskMs(page)} ms`);
  assert.deepEqual(requests, []);
  assert.deepEqual(errors, []);
});

test('slider, stepper, optimizer and device change the answer', async () => {
  const { page, errors } = await openJudged('ResNet-50');
  await page.getByRole('slider', { name: 'batch (slider)' }).press('ArrowRight');
  assert.match(await verdict(page), /at batch 48 /);
  await page.getByRole('button', { name: 'batch plus one' }).click();
  assert.match(await verdict(page), /at batch 49 /);
  await chooseDevice(page, 't4');
  assert.match(await verdict(page), /at batch 49 fits on a T4/);
  const before = await peakBytes(page);
  await page.getByLabel('optimizer', { exact: true }).selectOption('sgd');
  assert.match(await verdict(page), /at batch 49 fits on a T4/);
  assert.ok((await peakBytes(page)) < before);
  assert.deepEqual(errors, []);
});

test('how it trains: each setting lowers the peak, and what PyTorch refuses is said', async () => {
  const { page, errors } = await openJudged('ViT-B/16');
  const lower = async (act) => {
    const before = await peakBytes(page);
    assert.ok((await changesPeak(page, act)) < before);
  };
  await lower(() => page.getByLabel('precision').selectOption('amp-bf16'));
  await unfoldSettings(page);
  await lower(() => page.getByLabel('checkpointing', { exact: true }).selectOption('blocks'));
  await lower(() => page.getByRole('radio', { name: 'LoRA', exact: true }).check());
  await changesPeak(page, async () => {
    await page.getByLabel('LoRA adapters').fill('*mlp*');
    await page.getByLabel('LoRA adapters').press('Tab');
  });
  await page.getByText('How it trains (1 changed)').waitFor();
  await page.getByText('More settings (1 changed)').waitFor();
  await takePictures(page, 'training');
  await page.getByLabel('optimizer', { exact: true }).selectOption('rmsprop');
  await page.getByLabel('optimizer implementation').selectOption('fused');
  await page.locator('.problem').waitFor();
  assert.match(await page.locator('.problem').textContent(), /fused/);
  assert.deepEqual(errors, []);
});

// Timings are reported and not asserted: they are the machine's as much as the page's.
test('the slider can be dragged, and the answer follows', async (t) => {
  const { page } = await openJudged('ViT-B/16');
  await longestTaskMs(page);
  const slider = page.getByRole('slider', { name: 'batch (slider)' });
  await slider.press('Home');
  for (let stop = 0; stop < 16; stop += 1) await slider.press('ArrowRight');
  const value = await page.getByRole('spinbutton', { name: 'batch' }).inputValue();
  assert.match(await verdict(page), /at batch 384 /);
  assert.equal(value, '384');
  t.diagnostic(`longest task while dragging: ${await longestTaskMs(page)} ms`);
});

test('a bad file is refused with a reason, and what was there stays', async () => {
  const { page, errors } = await openJudged('ResNet-50');
  const before = await verdict(page);
  const bad = [
    { name: 'holiday.png', bytes: Buffer.from('\x89PNG\r\n\x1a\n and so on', 'latin1') },
    { name: 'empty.onnx', bytes: Buffer.alloc(0) },
    { name: 'noise.onnx', bytes: Buffer.from('this was never a model') },
  ];
  for (const file of bad) {
    await dropFile(page, file);
    const notice = page.getByRole('alert').filter({ hasText: `Could not open ${file.name}` });
    await notice.waitFor();
    assert.match(await notice.textContent(), /\. resnet50\.onnx is still here\./);
    assert.equal(await verdict(page), before);
  }
  await takePictures(page, 'refused');
  await page.getByRole('button', { name: 'Dismiss' }).click();
  assert.equal(await page.locator('.notice').count(), 0);
  assert.deepEqual(errors, []);
});

test('the largest batch of a card is set by a click, and fits with a chance of 90 %', async () => {
  const { page, errors } = await openJudged('ResNet-50');
  const card = page.locator('.gpu-card-t4 .gpu-card-batch', { hasText: /largest batch \d/ });
  await card.waitFor();
  const largest = (await card.textContent()).match(/\d+/)[0];
  assert.match(await card.getAttribute('title'), new RegExp(`^${largest} fits with a chance of 90\\s%; \\d+ with one of 5\\d.%`));
  await card.click();
  await page.locator('.headline-lead', { hasText: `batch ${largest} likely fits on a T4` }).waitFor();
  await answered(page);
  await page.locator('#basis', { hasText: /How sure\? 9\d.% that it fits/ }).waitFor();
  assert.deepEqual(errors, []);
});

test('what does not fit has no speed', async () => {
  const { page } = await openJudged('ResNet-50');
  const time = page.locator('.headline-time', { hasText: 'A step takes' });
  await time.waitFor();
  await chooseDevice(page, 't4');
  await page.getByRole('spinbutton', { name: 'batch' }).fill('900');
  await page.locator('.headline-lead', { hasText: 'Does not fit on a T4' }).waitFor();
  assert.equal(await time.count(), 0);
});

test('an operator that nobody knows makes the answer uncertain, in plain sight', async () => {
  const { page, errors } = await openPage(browser);
  const bytes = await readFile(new URL('../fixtures/models/train/resnet18.onnx', import.meta.url));
  bytes.write('MaxQool', bytes.lastIndexOf('\x07MaxPool') + 1, 'latin1');
  await dropFile(page, { name: 'unknown.onnx', bytes });
  assert.match(await verdict(page), /needs about .+For all \d+ GPUs the verdict is unknown/);
  await page.getByText('Uncertain.').waitFor();
  await page.getByRole('button', { name: 'See which' }).click();
  await page.locator('.severity-error').first().waitFor();
  await takePictures(page, 'lower-bound');
  assert.deepEqual(errors, []);
});

test('a file far larger than memory opens, because only its structure is read', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'highwater-large-'));
  const path = join(folder, 'large.onnx');
  try {
    // Behind the model lies a field that nobody reads: number 999, six gigabytes of nothing.
    const size = 6 * 2 ** 30;
    const model = new URL('../fixtures/models/train/resnet18.onnx', import.meta.url);
    const head = Buffer.concat([await readFile(model), varint(999 * 8 + 2), varint(size)]);
    const file = openSync(path, 'w');
    writeSync(file, head);
    ftruncateSync(file, head.length + size);
    closeSync(file);
    const { page, errors } = await openPage(browser);
    await page.locator('input[type=file]').first().setInputFiles(path);
    assert.match(await verdict(page), / needs /);
    assert.deepEqual(errors, []);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/** A number as protobuf writes it. */
function varint(number) {
  const bytes = [];
  for (let rest = number; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest % 128) + 128);
  }
}

test('a worker that dies is replaced, and the model is still there', async () => {
  const { page } = await openWatched();
  await verdict(page);
  await page.evaluate(() => globalThis.workers.at(-1).dispatchEvent(new ErrorEvent('error')));
  await page.getByRole('alert').filter({ hasText: 'restarted' }).waitFor();
  await page.waitForFunction(() => globalThis.workers.length === 2);
  await page.getByRole('spinbutton', { name: 'batch' }).fill('64');
  assert.match(await verdict(page), /at batch 64 /);
});

/** Opens an example on a page that remembers its workers. */
async function openWatched() {
  await browser.context.addInitScript(() => {
    const Plain = globalThis.Worker;
    globalThis.workers = [];
    globalThis.Worker = class extends Plain {
      constructor(...options) {
        super(...options);
        globalThis.workers.push(this);
      }
    };
  });
  return openJudged('ResNet-50');
}

test('the timeline speaks to the keyboard', async () => {
  const { page } = await openJudged('ResNet-50');
  const plot = page.getByRole('slider', { name: /Memory over time/ });
  await plot.focus();
  await plot.press('p');
  const spoken = page.locator('.timeline-plot [aria-live]');
  assert.match(await spoken.textContent(), /of iteration \d, .*event \d+ of .+: .+\sGiB allocated/);
  assert.match(await page.locator('.readout-when').textContent(), /At the cursor/);
  const atPeak = await spoken.textContent();
  await plot.press('Shift+ArrowLeft');
  assert.notEqual(await spoken.textContent(), atPeak);
  await plot.press('Escape');
  assert.match(await page.locator('.readout-when').textContent(), /At the peak/);
  await page.getByText('The timeline as a table').click();
  assert.ok((await page.locator('.timeline-table tbody tr').count()) >= 9);
});

test('the table of GPUs sorts, and a GPU can be chosen in it', async () => {
  const { page } = await openJudged('ResNet-50');
  await show(page, 'gpus');
  // At first those of the cards and those near the limit; all of them are in classes, and sorted within each.
  const names = () => page.locator('.gpu-name').allTextContents();
  const first = await names();
  for (const gpu of ['T4', 'V100', 'RTX 4090', 'A100', 'H100']) {
    assert.ok(first.some((name) => name.includes(gpu)), `${gpu} is in ${first}`);
  }
  assert.ok(first.length <= 9, first.join(', '));
  await showAllGpus(page);
  await page.getByRole('button', { name: 'GPU', exact: true }).click();
  const classes = await page.locator('.gpu-table tbody tr').evaluateAll((rows) => {
    const all = [];
    for (const row of rows) {
      if (row.classList.contains('gpu-class')) all.push([]);
      else all.at(-1).push(row.querySelector('.gpu-name').textContent);
    }
    return all;
  });
  assert.ok(classes.length > 1 && classes.flat().length > 20, JSON.stringify(classes));
  for (const sorted of classes) assert.deepEqual(sorted, sorted.toSorted());
  await page.getByRole('searchbox', { name: 'Search for a GPU' }).fill('h100');
  await page.waitForFunction(() =>
    [...document.querySelectorAll('.gpu-name')].every((name) => /H100/.test(name.textContent)),
  );
  await page.getByRole('searchbox', { name: 'Search for a GPU' }).fill('');
  await page.getByRole('button', { name: 'T4', exact: true }).click();
  await page.waitForFunction(() => /on a T4/.test(document.querySelector('.headline').textContent));
  assert.equal(await deviceField(page).inputValue(), 't4');
  assert.equal(await page.locator('#card-t4').getAttribute('aria-pressed'), 'true');
});

test('the theme can be switched and closing empties the page', async () => {
  const { page } = await openJudged('ResNet-50');
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.getByRole('button', { name: 'Switch to the dark theme' }).click();
  assert.notEqual(await ground(), light);
  await page.getByRole('button', { name: 'Switch to the light theme' }).click();
  assert.equal(await page.title(), 'ResNet-50 · fits on A100 · Highwater');
  await page.getByRole('button', { name: 'Close this model' }).click();
  await page.waitForFunction(() => document.title === 'Highwater: will it fit on your GPU?');
  await page.locator('.hero').waitFor();
  assert.equal(new URL(page.url()).hash, '');
});

test('can be used by everybody, on every screen and in both themes', async () => {
  const { page } = await openJudged('DistilGPT-2');
  for (const [name, size] of Object.entries(SCREENS)) {
    for (const theme of ['light', 'dark']) {
      await page.setViewportSize(size);
      await page.evaluate(() => localStorage.removeItem('highwater-theme'));
      await page.emulateMedia({ colorScheme: theme });
      assert.deepEqual(await accessibilityFaults(page), [], `${name}, ${theme}`);
      assert.equal(await sideways(page), 0, `${name} scrolls sideways`);
    }
  }
});

test('a setting that trains nothing is refused at its field, and reset for the next model', async () => {
  const { page, errors } = await openJudged('DistilGPT-2');
  await page.getByRole('radio', { name: 'LoRA', exact: true }).check();
  const lora = page.getByLabel('LoRA adapters');
  const adapt = async (names) => {
    await lora.fill(names);
    await lora.press('Tab');
  };
  await adapt('nothing_like_it');
  await page.locator('.hint-wrong').getByText('matches no linear layer').waitFor();
  await adapt('c_attn');
  await page.waitForFunction(() => document.querySelector('.problem').textContent === '');
  assert.equal(await page.locator('.hint-wrong').count(), 0);
  await chooseExample(page, 'ResNet-50');
  await page.locator('.problem').getByText('The setting was reset for this model.').waitFor();
  assert.equal(await lora.inputValue(), '');
  assert.deepEqual(errors, []);
});
