// The page opens: quietly, quickly, and without talking to anybody else.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessibilityFaults, answered, holdBack, opened, openPage, useBrowser, takePictures } from './browser.js';

const browser = useBrowser();

test('opens without a word on the console', async () => {
  const { page, errors } = await openPage(browser);
  assert.match(await page.title(), /Highwater/);
  assert.match(await page.locator('h1').first().textContent(), /Will it fit on your GPU\?/);
  assert.deepEqual(errors, []);
  await takePictures(page, 'open');
});

test('answers before its worker is there, and answers then what was asked meanwhile', async () => {
  const letGo = await holdBack(browser.context, '**/highwater-desk-*');
  const page = await browser.context.newPage();
  await page.goto(browser.address);
  await page.locator('.sample .headline-lead', { hasText: 'fits on an A100' }).waitFor();
  const needs = page.locator('.sample .gpu-card-need');
  assert.ok((await needs.count()) >= 5 && (await needs.allTextContents()).every((need) => /GiB/.test(need)));
  const first = await page.locator('.sample .headline-lead').textContent();
  await page.getByRole('spinbutton', { name: 'batch' }).fill('64');
  letGo();
  await answered(page);
  assert.notEqual(await page.locator('.sample .headline-lead').textContent(), first);
});

test('opens what is chosen before its worker is there', async () => {
  const letGo = await holdBack(browser.context, '**/highwater-desk-*');
  const page = await browser.context.newPage();
  await page.goto(browser.address);
  await page.getByRole('button', { name: 'Llama 3.1 8B' }).first().click();
  letGo();
  await opened(page);
  await answered(page);
  assert.match(await page.locator('.headline-lead').textContent(), /RTX 4090/);
});

test('says what it opens and that nothing is uploaded', async () => {
  const { page } = await openPage(browser);
  const field = page.getByRole('combobox', { name: 'Open a model' });
  assert.match(await field.getAttribute('placeholder'), /Drop a file, paste a model, or type a name/);
  await page.getByText('Nothing is uploaded or installed').waitFor();
  await page.getByText('What can I open?').click();
  await page.getByText('torch.onnx.export(').waitFor();
  assert.ok((await page.locator('.hero-formats dt').count()) >= 8);
  await page.getByText('Learn how memory behaves').click();
  assert.ok((await page.locator('.hero .lesson-list li').count()) >= 6);
});

test('asks nobody but its own server', async () => {
  const { requests } = await openPage(browser);
  const elsewhere = requests.filter((url) => !url.startsWith(browser.address));
  assert.deepEqual(elsewhere, []);
});

test('can be used by everybody', async () => {
  const { page } = await openPage(browser);
  assert.deepEqual(await accessibilityFaults(page), []);
});
