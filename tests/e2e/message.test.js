// An out-of-memory message or nvidia-smi is pasted: it is explained, its settings are applied, its place in
// the step is found, and nothing that was open is lost.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import {
  SCREENS,
  accessibilityFaults,
  answered,
  chooseExample,
  deviceField,
  dropFile,
  isInSight,
  openExample,
  openPage,
  opened,
  paste,
  sideways,
  useBrowser,
  takePictures,
  unfoldMessage,
  unfoldSettings,
} from './browser.js';
import { SMI } from './pasted.js';

const browser = useBrowser();

// PyTorch 2.15 said this of ResNet-50 with AdamW and a batch of 256, on a device of 14908 MiB.
const MESSAGE = `CUDA out of memory. Tried to allocate 392.00 MiB. GPU 0 has a total capacity of 14.56 GiB of
which 168.00 MiB is free. Of the allocated memory 14.02 GiB is allocated by PyTorch, and 382.24 MiB is
reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.`;

// As terminals and launchers give it: an earlier message, a prompt, colours, prefixes, a traceback.
const LOG = `user@host:~$ python train.py
[rank0]: Traceback (most recent call last):
[rank0]:   File "train.py", line 41, in <module>
[rank0]:     loss.backward()
[rank0]: torch.OutOfMemoryError: \u001b[31mCUDA out of memory\u001b[0m. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 14.56 GiB of which 1.00 GiB is free. Process 12 has 2.00 GiB memory in use. Including non-PyTorch memory, this process has 11.56 GiB memory in use. Of the allocated memory 11.00 GiB is allocated by PyTorch, and 200.00 MiB is reserved by PyTorch but unallocated.
user@host:~$ python train.py
[rank0]: torch.OutOfMemoryError: \u001b[31mCUDA out of memory\u001b[0m. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 14.56 GiB of which 512.00 MiB is free. Process 12 has 3.00 GiB memory in use. Including non-PyTorch memory, this process has 11.05 GiB memory in use. Of the allocated memory 10.70 GiB is allocated by PyTorch, and 200.00 MiB is reserved by PyTorch but unallocated.
`;

const card = (page) => page.locator('.message');
const device = (page) => deviceField(page).inputValue();

test('on the empty page a message is explained, and its settings wait for a model', async () => {
  const { page, errors, requests, loaded } = await openPage(browser);
  loaded();
  await paste(page, LOG);
  await unfoldMessage(page);
  const text = await card(page).textContent();
  assert.match(text, /CUDA ran out of memory on GPU 0/);
  assert.match(text, /It asked for 1\.00\sGiB where 512\.00\sMiB was free: 512\.00\sMiB short\./);
  assert.match(text, /other processes/i);
  assert.match(text, /Open the model of this run/);
  assert.match(text, /T4/);
  assert.deepEqual(await accessibilityFaults(page), []);
  await takePictures(page, 'message-alone');
  assert.equal(await page.locator('.hero').count(), 1);
  assert.equal(await page.locator('.source').count(), 0);
  await page.setViewportSize(SCREENS.desktop);
  await chooseExample(page, 'ResNet-50');
  await opened(page);
  assert.equal(await device(page), 't4');
  await unfoldSettings(page);
  await page.getByText('Your GPU (').waitFor();
  assert.equal(await page.getByRole('textbox', { name: 'total memory' }).inputValue(), '14.56 GiB');
  assert.equal(await page.getByRole('textbox', { name: 'other processes' }).inputValue(), '3.01 GiB');
  assert.deepEqual(errors, []);
  assert.ok(requests.every((url) => url.startsWith(browser.address)));
});

test('a message of one line is one, typed or pasted', async () => {
  const { page, errors } = await openPage(browser);
  const field = page.getByRole('combobox', { name: 'Open a model' });
  await field.fill('RuntimeError: CUDA error: out of memory');
  await page.getByRole('option', { name: 'Explain this message' }).click();
  await card(page).getByText('Memory ran out in the CUDA runtime').waitFor();
  assert.deepEqual(errors, []);
});

test('with the model its place in the step is found, with the batch that it had', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50');
  await paste(page, MESSAGE);
  await card(page).waitFor();
  await answered(page);
  for (const [name, size] of Object.entries(SCREENS)) {
    await page.setViewportSize(size);
    assert.ok(await isInSight(page, '.headline-lead'), `${name}: the message pushes the answer off the first screen`);
  }
  await page.setViewportSize(SCREENS.desktop);
  await unfoldMessage(page);
  assert.equal(await page.locator('.chip-text').textContent(), 'resnet50.onnx');
  const where = page.locator('.message-where');
  await where.getByRole('button', { name: 'Use this batch' }).waitFor();
  assert.match(await where.textContent(), /With a batch of 256 it would fail in the forward pass of \S+\./);
  await takePictures(page, 'message-other-batch');
  await page.setViewportSize(SCREENS.desktop);
  await where.getByRole('button', { name: 'Use this batch' }).click();
  await page.waitForFunction(() =>
    /in the forward pass of .*batch_norm.* with 14\.0\d?\sGiB allocated/.test(
      document.querySelector('.message-where').textContent,
    ),
  );
  assert.equal(await page.getByRole('spinbutton', { name: 'batch' }).inputValue(), '256');
  await page.locator('.headline-lead').getByText(/Does not fit on a T4/).waitFor();
  await where.getByRole('button', { name: 'Show on the timeline' }).click();
  assert.match(await page.locator('.readout-when').textContent(), /At the pin/);
  await page.locator('#message-search').click();
  await page.locator('.fit-plan li').first().waitFor();
  assert.equal(await page.getByRole('tab', { selected: true }).getAttribute('id'), 'tab-suggestions');
  for (const [name, size] of Object.entries(SCREENS)) {
    await page.setViewportSize(size);
    assert.deepEqual(await accessibilityFaults(page), [], name);
    assert.equal(await sideways(page), 0, `${name} scrolls sideways`);
  }
  await page.evaluate(() => globalThis.scrollTo(0, 0));
  await takePictures(page, 'message-found');
  assert.deepEqual(errors, []);
});

test('each setting can be taken back, and each figure of the card typed and reset', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50');
  const own = await device(page);
  await paste(page, LOG);
  await unfoldMessage(page);
  assert.equal(await device(page), 't4');
  await page.getByRole('button', { name: 'Undo GPU' }).click();
  assert.equal(await device(page), own);
  await page.getByRole('button', { name: 'Apply total memory' }).click();
  assert.equal(await device(page), 't4');
  await unfoldSettings(page);
  await page.getByText('Your GPU (').waitFor();
  const memory = page.getByRole('textbox', { name: 'total memory' });
  await memory.fill('24GB');
  await memory.press('Tab');
  assert.match(await page.locator('.hint-wrong').textContent(), /no size; write it as/);
  await memory.fill('700 MiB');
  await memory.press('Tab');
  await page.waitForFunction(() =>
    /Does not fit on a T4/.test(document.querySelector('.headline-lead').textContent),
  );
  await page.getByRole('button', { name: 'Restore the figures of the table' }).click();
  await page.waitForFunction(
    () => !/Does not fit/.test(document.querySelector('.headline-lead').textContent),
  );
  assert.equal(await memory.inputValue(), '');
  await page.getByRole('button', { name: 'Dismiss the message' }).click();
  assert.equal(await card(page).count(), 0);
  assert.deepEqual(errors, []);
});

test('nvidia-smi says which card it is, and what others hold of it', async () => {
  const { page, errors } = await openExample(browser, 'ViT-B/16');
  await paste(page, SMI);
  await unfoldMessage(page);
  const text = await card(page).textContent();
  assert.match(text, /This machine has a T4/);
  assert.match(text, /GPU 0 has 2\.49 of 14\.8\sGiB in use/);
  assert.equal(await device(page), 't4');
  await unfoldSettings(page);
  await page.getByText('Your GPU (').waitFor();
  assert.equal(await page.getByRole('textbox', { name: 'other processes' }).inputValue(), '2.49 GiB');
  await takePictures(page, 'nvidia-smi');
  assert.deepEqual(errors, []);
});

test('a message in the editor gives way to the model, and a dropped log is a message', async () => {
  const { page, errors } = await openPage(browser);
  await dropFile(page, 'spec/gpt.yaml');
  await opened(page);
  await page.getByRole('button', { name: 'Edit the model' }).click();
  const editor = page.getByRole('textbox', { name: 'Model as text' });
  const spec = await editor.inputValue();
  await editor.fill(MESSAGE);
  await unfoldMessage(page);
  assert.equal(await editor.inputValue(), spec);
  await page.getByRole('button', { name: 'Dismiss the message' }).click();
  await dropFile(page, { name: 'train.log', bytes: Buffer.from(LOG) });
  await unfoldMessage(page);
  assert.equal(await editor.inputValue(), spec);
  assert.equal(await page.locator('.notice').count(), 0);
  assert.deepEqual(errors, []);
});

test('every message of the fixtures is explained or refused, and the model stays', async () => {
  const { page, errors } = await openExample(browser, 'DistilGPT-2');
  const text = await readFile(new URL('../fixtures/messages/messages.txt', import.meta.url), 'utf8');
  const parts = text.split(/^== (.*)$/m).slice(1);
  for (let at = 0; at < parts.length; at += 2) {
    const [title, message] = [parts[at], parts[at + 1]];
    await paste(page, message);
    if (title.startsWith('nothing of the kind')) {
      await page.locator('.source .problem, .notice').first().waitFor();
      continue;
    }
    await card(page).waitFor();
    assert.match(await card(page).locator('h2').textContent(), /\S/, title);
    await page.getByRole('button', { name: 'Dismiss the message' }).click();
    assert.equal(await page.locator('.chip-text').textContent(), 'distilgpt2.onnx', title);
  }
  assert.deepEqual(errors, []);
});
