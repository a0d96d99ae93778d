// A training recipe is dropped or pasted: its model opens with its settings, and one without a known model waits.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  OPENED,
  SCREENS,
  accessibilityFaults,
  answered,
  dropFile,
  isInSight,
  openPage,
  opened,
  overflowing,
  paste,
  sideways,
  takePictures,
  unfoldMessage,
  unfoldSettings,
  useBrowser,
} from './browser.js';
import { AXOLOTL } from './pasted.js';

const browser = useBrowser();

const card = (page) => page.locator('.message');

test('an axolotl file opens its model with its settings in one drop', async () => {
  const { page, errors, requests } = await openPage(browser);
  await dropFile(page, { name: 'recipe.yml', bytes: AXOLOTL });
  await opened(page);
  assert.match(await page.locator('.headline-lead').textContent(), /at batch 2/);
  assert.match(await page.locator('.headline-lead').textContent(), /^QLoRA of Llama-3\.2-1B at batch 2 × 512 tokens /);
  assert.match(await page.title(), /^Llama-3\.2-1B · /);
  await unfoldMessage(page);
  const text = await card(page).textContent();
  assert.match(text, /Training recipe of axolotl 0\.18/);
  assert.match(text, /lora-rank 16 \(lora_r\)/);
  assert.match(text, /No effect on memory: learning_rate/);
  await page.setViewportSize(SCREENS.desktop);
  await unfoldSettings(page);
  assert.equal(await page.getByRole('spinbutton', { name: 'batch' }).inputValue(), '2');
  assert.deepEqual(await accessibilityFaults(page), []);
  assert.deepEqual(errors, []);
  assert.ok(requests.every((url) => url.startsWith(browser.address)));
});

test('a recipe whose model is unknown waits for its configuration', async () => {
  const { page, errors } = await openPage(browser);
  await paste(page, AXOLOTL.replace('meta-llama/Llama-3.2-1B', 'somebody/of-their-own'));
  await card(page).getByText(/is not in the catalogue/).last().waitFor();
  await page.setViewportSize(SCREENS.phone);
  assert.equal(await sideways(page), 0);
  assert.ok(await isInSight(page, '.open-field'));
  await takePictures(page, 'recipe-waiting');
  await page.setViewportSize(SCREENS.desktop);
  const sizes = { hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 128, vocab_size: 256 };
  await dropFile(page, { name: 'config.json', bytes: JSON.stringify({ model_type: 'llama', ...sizes }) });
  await opened(page);
  assert.match(await page.locator('.headline-lead').textContent(), /^QLoRA of of-their-own at batch 2 /);
  await unfoldMessage(page);
  await card(page).getByText(/lora-rank 16 \(lora_r\)/).waitFor();
  assert.deepEqual(errors, []);
});

test('the answer to a recipe is on the first screen, and a key that is not followed in sight', async () => {
  for (const [name, size] of [['desktop', SCREENS.desktop], ['phone', SCREENS.phone]]) {
    const { page, errors } = await openPage(browser);
    await page.setViewportSize(size);
    await dropFile(page, { name: 'recipe.yml', bytes: `${AXOLOTL}lora_dropuot: 0.1\n` });
    await opened(page);
    await answered(page);
    await card(page).getByText('1 not followed').first().waitFor();
    assert.equal(await page.locator('#message').evaluate((details) => details.open), false);
    const seen = ['.headline-lead', '.headline-bound', '.gpu-card-chosen', ...(name === 'desktop' ? ['#section-timeline canvas'] : [])];
    for (const selector of seen) {
      assert.ok(await isInSight(page, `${OPENED} ${selector}`), `${name}: ${selector} is not on the first screen`);
    }
    assert.match(await page.locator('.headline-bound').textContent(), /lora_dropuot.*did you mean/);
    assert.equal(await sideways(page), 0, name);
    assert.deepEqual(await overflowing(page), [], name);
    assert.deepEqual(await accessibilityFaults(page), [], name);
    const [left, right] = await page
      .locator('.gpu-card-chosen')
      .evaluate((chosen) => [chosen.getBoundingClientRect().left, chosen.getBoundingClientRect().right]);
    assert.ok(left >= 0 && right <= size.width, `${name}: the chosen GPU is at ${left}`);
    await takePictures(page, `recipe-${name}`);
    assert.deepEqual(errors, []);
    await page.close();
  }
});

test('where a log has a recipe and an allocation that failed, the allocation is explained', async () => {
  const { page, errors } = await openPage(browser);
  const failed =
    'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 14.56 GiB of ' +
    'which 1.00 GiB is free.';
  await paste(page, `File "pretrain_gpt.py", line 3\ntrainer = Trainer(model=model, args=TrainingArguments(output_dir="out"))\n${failed}\n`);
  await card(page).getByText('CUDA ran out of memory on GPU 0').waitFor();
  assert.deepEqual(errors, []);
});
