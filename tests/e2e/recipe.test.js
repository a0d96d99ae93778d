// A training recipe is dropped or pasted: its model opens with its settings, and one without a known model waits.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SCREENS, accessibilityFaults, dropFile, openPage, opened, paste, unfoldSettings, useBrowser } from './browser.js';

const browser = useBrowser();

const AXOLOTL = `base_model: meta-llama/Llama-3.2-1B
load_in_4bit: true
adapter: qlora
lora_r: 16
lora_target_linear: true
sequence_len: 512
micro_batch_size: 2
optimizer: adamw_bnb_8bit
bf16: auto
gradient_checkpointing: true
learning_rate: 0.0002
`;

const card = (page) => page.locator('.message');

test('an axolotl file opens its model with its settings in one drop', async () => {
  const { page, errors, requests } = await openPage(browser);
  await dropFile(page, { name: 'recipe.yml', bytes: AXOLOTL });
  await opened(page);
  assert.match(await page.locator('.headline-lead').textContent(), /at batch 2/);
  await card(page).waitFor();
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
  await card(page).getByText(/is not in the catalogue/).waitFor();
  const sizes = { hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 128, vocab_size: 256 };
  await dropFile(page, { name: 'config.json', bytes: JSON.stringify({ model_type: 'llama', ...sizes }) });
  await opened(page);
  await card(page).getByText(/lora-rank 16 \(lora_r\)/).waitFor();
  assert.deepEqual(errors, []);
});
