// Several GPUs: the settings, what they change, and what is refused.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  accessibilityFaults,
  changesPeak,
  OPENED,
  openExample,
  SCREENS,
  sideways,
  takePictures,
  unfoldSettings,
  useBrowser,
} from './browser.js';

const browser = useBrowser();

test('several GPUs have buckets of gradients or shards, and a mesh that does not fit is refused', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50');
  await unfoldSettings(page);
  const group = page.locator('.several-gpus');
  const gpus = group.getByLabel('GPUs', { exact: true });
  const lead = page.locator(`${OPENED} .headline-lead`);
  await changesPeak(page, async () => {
    await gpus.fill('8');
    await gpus.blur();
  });
  assert.match(await lead.textContent(), /^ResNet-50 at batch 32/);
  await changesPeak(page, () => group.getByLabel('data parallelism', { exact: true }).selectOption('fsdp'));
  await page.locator('.category-communication').first().waitFor({ state: 'attached' });
  for (const [name, size] of Object.entries(SCREENS)) {
    await page.setViewportSize(size);
    assert.deepEqual(await accessibilityFaults(page), [], name);
    assert.equal(await sideways(page), 0, `${name} scrolls sideways`);
  }
  await takePictures(page, 'ranks');
  await page.setViewportSize(SCREENS.desktop);
  const mesh = group.getByLabel('mesh', { exact: true });
  await mesh.fill('replicate=3');
  await mesh.blur();
  await page.getByText('8 GPUs cannot be divided into a mesh of replicate=3').first().waitFor();
  assert.match(await lead.textContent(), /^ResNet-50 at batch 32/);
  assert.deepEqual(errors, []);
  await page.close();
});

test('a section shows how many GPUs are enough, and applies one of the ways', async () => {
  const { page, errors } = await openExample(browser, 'DistilGPT-2', 'scale', '.scaled-table');
  const section = page.locator('.scaled');
  // The last row is known once all others are.
  await section.locator('.scaled-table tbody tr').nth(6).locator('button').nth(4).waitFor();
  assert.match(await section.locator('.times-lead').textContent(), /^It fits on one A100 80 GB/);
  assert.equal(await section.locator('.scaled-table tbody tr').count(), 7);
  for (const [name, size] of Object.entries(SCREENS)) {
    await page.setViewportSize(size);
    assert.deepEqual(await accessibilityFaults(page), [], name);
    assert.equal(await sideways(page), 0, `${name} scrolls sideways`);
  }
  await takePictures(page, 'scale');
  await page.setViewportSize(SCREENS.desktop);
  const fsdp = section.locator('.scaled-table tbody tr').nth(2).locator('button').nth(2);
  await changesPeak(page, () => fsdp.click());
  const lead = page.locator(`${OPENED} .headline-lead`);
  assert.match(await lead.textContent(), /fits on 4 × A100 80 GB: it needs .* on each\.$/);
  await section.locator('.scaled-rank').first().waitFor();
  assert.deepEqual(errors, []);
  await page.close();
});
