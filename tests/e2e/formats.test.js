// What is no ONNX: each kind opens, and a wrong one is named with what to do while the model stays.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { dropFile, openPage, opened, peakBytes, useBrowser, takePictures } from './browser.js';

const browser = useBrowser();

const fixture = (path) => readFile(new URL(`../fixtures/${path}`, import.meta.url));

const KINDS = [
  {
    name: 'config.json',
    bytes: () => fixture('hf_config/distilbert.json'),
    format: /Hugging Face configuration.*template/s,
    spoil: (bytes) => Buffer.from(bytes.toString().replace('"distilbert"', '"distilbird"')),
    refusal: /distilbird/,
  },
  {
    name: 'model.txt',
    bytes: () => fixture('printed/alexnet.txt'),
    format: /printed model/,
    spoil: (bytes) => bytes.subarray(0, bytes.length - 40),
    refusal: /line \d+/,
  },
  {
    name: 'keras.json',
    bytes: () => fixture('keras/mnist_keras2.json'),
    format: /Keras model/,
    spoil: (bytes) => Buffer.from(bytes.toString().replace('"Conv2D"', '"Lambda"')),
    refusal: /Lambda/,
  },
  {
    name: 'model.pt2',
    bytes: async () => gunzipSync(await fixture('zoo/pt2/vit_b_16.pt2.gz')),
    format: /torch\.export/,
    spoil: (bytes) => bytes.subarray(0, bytes.length - 64),
    refusal: /zip|archive|end/i,
  },
];

for (const { name, bytes, format, spoil, refusal } of KINDS) {
  test(`${name} opens, and a wrong one is refused by name`, async () => {
    const { page, errors, requests, loaded } = await openPage(browser);
    loaded();
    const good = await bytes();
    await dropFile(page, { name, bytes: good });
    await opened(page);
    assert.match(await page.locator('.facts').textContent(), format);
    const peak = await peakBytes(page);
    await dropFile(page, { name: `wrong-${name}`, bytes: spoil(good) });
    const notice = page.getByRole('alert').filter({ hasText: `Could not open wrong-${name}` });
    await notice.waitFor();
    const text = await notice.textContent();
    assert.match(text, refusal);
    assert.ok(text.includes(`${name} is still here.`), text);
    assert.equal(await peakBytes(page), peak);
    assert.equal(await page.locator('.chip-text').textContent(), name);
    await takePictures(page, `refused-${name}`);
    assert.deepEqual(requests, []);
    assert.deepEqual(errors, []);
  });
}
