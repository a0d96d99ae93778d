// Jobs that share a GPU: models that are opened join a tray, and are put onto cards.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  accessibilityFaults,
  chooseExample,
  OPENED,
  openExample,
  SCREENS,
  show,
  sideways,
  takePictures,
  useBrowser,
} from './browser.js';

const browser = useBrowser();

test('two models that are opened share a card, and can be moved to others', async () => {
  const { page, errors } = await openExample(browser, 'DistilGPT-2', 'shared', '.tray-card');
  const tray = page.locator('.tray');
  const lead = tray.locator('.times-lead');
  await page.getByText(/^One job is on A100 80 GB, and fits\./).waitFor();
  assert.equal(await tray.locator('.tray-card').count(), 5);
  // Another model joins it.
  await chooseExample(page, 'ResNet-50');
  await page.locator(`${OPENED} .headline-lead`, { hasText: 'ResNet-50' }).waitFor();
  await show(page, 'shared');
  await tray.getByText(/^2 jobs fit on A100 80 GB: their peaks need .* With MPS, steps take/).waitFor();
  assert.equal(await tray.locator('.tray-job').count(), 2);
  await tray.locator('table tbody tr').nth(1).waitFor();
  for (const [name, size] of Object.entries(SCREENS)) {
    await page.setViewportSize(size);
    assert.deepEqual(await accessibilityFaults(page), [], name);
    assert.equal(await sideways(page), 0, `${name} scrolls sideways`);
  }
  await takePictures(page, 'tray');
  await page.setViewportSize(SCREENS.desktop);
  // Dragged onto a smaller card, which then has a job, too.
  const t4 = tray.locator('.tray-card').nth(1);
  // Both are in view first: a scroll between pressing and moving would begin no drag.
  await t4.scrollIntoViewIfNeeded();
  await tray.locator('.tray-job').nth(1).dragTo(t4);
  await t4.getByText(/^fit, chance/).waitFor();
  assert.equal(await tray.locator('.tray-job select').nth(1).inputValue(), 't4');
  // A third job, and one less.
  await tray.getByRole('button', { name: /^One more of/ }).first().click();
  await lead.getByText(/^2 jobs fit on A100 80 GB/).waitFor();
  await tray.getByRole('button', { name: /^Remove/ }).first().click();
  await tray.locator('.tray-job').nth(2).waitFor({ state: 'detached' });
  assert.deepEqual(errors, []);
  await page.close();
});
