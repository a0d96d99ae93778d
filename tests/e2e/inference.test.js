// Training, inference and generation are one switch; what servers keep has a tab.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  accessibilityFaults,
  OPENED,
  openExample,
  openPage,
  opened,
  SCREENS,
  show,
  sideways,
  takePictures,
  useBrowser,
} from './browser.js';

const browser = useBrowser();

const switchTo = (page, name) => page.getByRole('radio', { name, exact: true }).check();

const lead = (page) => page.locator(`${OPENED} .headline-lead`);

test('a model is trained, run, or writes tokens, with one click each', async () => {
  const { page, errors } = await openPage(browser);
  await page.getByRole('button', { name: 'Llama 3.2 1B Full, RTX 4090' }).click();
  await opened(page, 'Llama 3.2 1B');
  await lead(page).getByText(/^Does not fit on a GeForce RTX 4090: Llama 3\.2 1B at batch 1/).or(
    lead(page).getByText(/^Llama 3\.2 1B at batch 1 × 2,048 tokens/),
  ).waitFor();
  await switchTo(page, 'Infer');
  await lead(page).getByText(/^Llama 3\.2 1B in inference at batch 1 × 2,048 tokens fits/).waitFor();
  assert.ok(await page.getByRole('radio', { name: 'QLoRA', exact: true }).isHidden());
  assert.ok(await page.getByLabel('optimizer', { exact: true }).isHidden());
  await switchTo(page, 'Generate');
  const writes = /^Llama 3\.2 1B generating 128 tokens at batch 1 × 2,048 tokens fits/;
  await lead(page).getByText(writes).waitFor();
  await page.getByLabel('new tokens', { exact: true }).fill('64');
  await lead(page).getByText(/generating 64 tokens/).waitFor();
  for (const [name, size] of Object.entries(SCREENS)) {
    await page.setViewportSize(size);
    assert.deepEqual(await accessibilityFaults(page), [], name);
    assert.equal(await sideways(page), 0, `${name} scrolls sideways`);
  }
  await takePictures(page, 'generation');
  await page.setViewportSize(SCREENS.desktop);
  await switchTo(page, 'Train');
  await lead(page).getByText(/Llama 3\.2 1B at batch 1 × 2,048 tokens/).waitFor();
  assert.deepEqual(errors, []);
  await page.close();
});

test('a file without a cache refuses generation, and the answer stays', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50');
  await switchTo(page, 'Generate');
  await page.getByText('this input has one forward pass').first().waitFor();
  assert.match(await lead(page).textContent(), /^ResNet-50 at batch 32/);
  await switchTo(page, 'Infer');
  await lead(page).getByText(/^ResNet-50 in inference at batch 32 fits/).waitFor();
  assert.equal(await page.getByRole('tab', { name: 'Servers' }).count(), 0);
  assert.deepEqual(errors, []);
  await page.close();
});

test('servers: the requests of a GPU follow the settings, and a change is applied', async () => {
  const { page, errors } = await openPage(browser);
  await page.getByRole('button', { name: 'Qwen2.5 7B LoRA, A100 40 GB' }).click();
  await opened(page, 'Qwen2.5 7B');
  await show(page, 'servers');
  const panel = page.locator('.serving');
  const sentence = panel.locator('.times-lead');
  await panel.getByText(/^On A100 .40 GB., vLLM 0\.\d+ serves Qwen2\.5 7B with [\d,]+ tokens/).waitFor();
  const requests = async () => Number((await sentence.textContent()).match(/([\d,]+) requests? of/)[1].replace(',', ''));
  const before = await requests();
  await panel.getByLabel('context', { exact: true }).fill('4096');
  await panel.getByText('requests of 4,096 tokens at once').waitFor();
  assert.ok((await requests()) > before);
  await panel.getByLabel('context', { exact: true }).fill('99999999');
  await panel.getByText('positions').first().waitFor();
  await panel.getByLabel('context', { exact: true }).fill('4096');
  const eight = panel.getByRole('row', { name: '--kv-type fp8' });
  await eight.getByRole('button', { name: 'Apply' }).click();
  await page.waitForFunction(() => document.querySelector('#serving-cache')?.value === 'fp8');
  await panel.getByText('The command that starts it').click();
  await panel.getByText('--kv-cache-dtype fp8').waitFor();
  for (const [name, size] of Object.entries(SCREENS)) {
    await page.setViewportSize(size);
    assert.deepEqual(await accessibilityFaults(page), [], name);
    assert.equal(await sideways(page), 0, `${name} scrolls sideways`);
  }
  await takePictures(page, 'servers');
  assert.deepEqual(errors, []);
  await page.close();
});
