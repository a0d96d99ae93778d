// What sets the peak, what would help, and how it grows.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  accessibilityFaults,
  changesPeak,
  chooseDevice,
  openExample,
  peakBytes,
  show,
  sideways,
  until,
  useBrowser,
  takePictures,
} from './browser.js';

const browser = useBrowser();

/** Opens an example with its suggestions, and waits until enough of them are known. */
async function openHelped(name) {
  const tab = await openExample(browser, name, 'suggestions', '.lever');
  await tab.page.waitForFunction(() => document.querySelectorAll('.lever').length > 3);
  return tab;
}

const lead = (page) => page.locator('.headline-lead').textContent();

test('a sentence names the vocabulary that sets the peak, and what would be next', async () => {
  const { page, errors } = await openExample(browser, 'DistilGPT-2', 'peak');
  const autopsy = page.getByRole('region', { name: 'What sets the peak' });
  const text = await autopsy.textContent();
  assert.match(text, /The peak of [\d.]+\sGiB is reached in the backward pass of the loss, by \S+, in iteration \d\./);
  assert.match(text, /50,257 classes/);
  assert.match(text, /Without this peak, the next is [\d.]+\sGiB, in the \S+ pass of .+: \d+\sMiB lower\./);
  assert.ok((await autopsy.locator('.autopsy-groups li').count()) >= 3);
  await autopsy.getByText('How to compute it in chunks').click();
  await autopsy.getByText('def chunk_loss').waitFor();
  assert.deepEqual(errors, []);
});

test('levers are ranked by what they save, and one can be applied and undone', async () => {
  const { page, errors, requests } = await openHelped('ResNet-50');
  const helps = page.getByRole('region', { name: 'What would help' });
  const gib = (text) => {
    const [, number, unit] = text.match(/([\d.]+)\s*(GiB|MiB|KiB|B)/);
    return Number(number) / { GiB: 1, MiB: 1 << 10, KiB: 1 << 20, B: 1 << 30 }[unit];
  };
  // They come one by one.
  await helps.locator('.lever-saved').nth(4).waitFor();
  const saved = (await helps.locator('.lever-saved').allTextContents()).map(gib);
  assert.ok(saved.length >= 5);
  assert.deepEqual(saved, saved.toSorted((a, b) => b - a));
  await helps.getByText(/^No saving here from: .+\.$/).waitFor();

  const before = await peakBytes(page);
  const lever = helps.locator('.lever', { hasText: 'Use autocast to bfloat16' });
  await lever.getByText('Code', { exact: true }).click();
  await lever.getByText('torch.autocast').waitFor();
  await changesPeak(page, () => lever.getByRole('button', { name: /^Apply/ }).click());
  assert.equal(await page.getByLabel('precision').inputValue(), 'amp-bf16');
  await helps.getByText('Applied: Use autocast to bfloat16.').waitFor();
  const undo = helps.getByRole('button', { name: 'Undo' });
  // The button that was pressed goes with its lever; the way back takes the focus.
  await page.waitForFunction(() => document.activeElement.id === 'undo');
  assert.equal(await changesPeak(page, () => undo.click()), before);
  assert.equal(await undo.count(), 0);
  // The example, and the part of the program that shows suggestions.
  const names = requests.map((url) => url.slice(browser.address.length).replace(/-\w+\.wasm$/, ''));
  assert.deepEqual(names, ['examples/resnet50.graph', 'highwater-sections']);
  assert.deepEqual(errors, []);
});

test('a search finds the smallest change that fits on a T4, and applying it makes it fit', async () => {
  const { page, errors } = await openHelped('ResNet-50');
  await chooseDevice(page, 't4');
  await page.getByText('It fits on a T4 without changes.').waitFor();
  await page.getByRole('spinbutton', { name: 'batch' }).fill('500');
  await page.waitForFunction(() => /Does not fit on a T4/.test(document.querySelector('h1').textContent));
  await page.getByRole('button', { name: 'Find the smallest change that fits' }).click();
  const plan = page.locator('.fit-plan');
  await plan.waitFor();
  assert.match(await plan.textContent(), /The smallest change that fits on a T4/);
  await takePictures(page, 'plan');
  assert.deepEqual(await accessibilityFaults(page), []);
  await plan.getByRole('button', { name: /^Apply/ }).click();
  await page.waitForFunction(() => /Fits on|fits on/.test(document.querySelector('h1').textContent));
  assert.match(await lead(page), / fits on /);
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.waitForFunction(() => /Does not fit on a T4/.test(document.querySelector('h1').textContent));
  // A search can be left off.
  await page.getByRole('button', { name: 'Find the smallest change that fits' }).click();
  const stop = page.getByRole('button', { name: 'Stop' });
  if (await stop.isVisible()) await stop.click({ timeout: 500 }).catch(() => {});
  assert.deepEqual(errors, []);
});

test('the curve has a table, marks the largest batch, and sets the batch', async () => {
  const { page, errors } = await openExample(browser, 'DistilGPT-2', 'growth');
  const plot = page.getByRole('slider', { name: /by what it needs/ });
  await page.waitForFunction(() => document.querySelectorAll('.trend-size').length > 2);
  await page.getByText(/^largest batch \d+/).and(page.locator('.trend-mark')).first().waitFor();
  await page.getByText('The curve as a table').click();
  await until(page, 'the whole curve', async () => (await page.locator('.trend-table tbody tr').count()) === 16);
  const batch = page.getByRole('spinbutton', { name: 'batch' });
  const before = await batch.inputValue();
  await plot.focus();
  await plot.press('ArrowRight');
  assert.ok(Number(await batch.inputValue()) > Number(before));
  assert.match(await plot.getAttribute('aria-valuetext'), /^batch \d+: needs [\d.]{3,4}\sGiB, /);
  // The picture is drawn anew with each answer; the panel around it stays.
  const { width } = await page.locator('.trend').boundingBox();
  await plot.click({ position: { x: width / 2, y: 100 } });
  assert.ok(Number(await batch.inputValue()) > 8);
  const other = page.locator('.trend-choices .choice button').nth(1);
  const name = await other.textContent();
  await other.click();
  await page.waitForFunction(
    (wanted) => document.querySelector('.trend-table caption')?.textContent.includes(wanted),
    name,
  );
  assert.deepEqual(errors, []);
});

test('what helps can be used by everybody, on every screen and in both themes', async () => {
  const { page } = await openHelped('DistilGPT-2');
  await show(page, 'growth');
  await page.waitForFunction(() => document.querySelectorAll('.trend-size').length > 2);
  for (const section of ['peak', 'suggestions', 'growth']) {
    await show(page, section);
    for (const width of [390, 834, 1440]) {
      for (const theme of ['light', 'dark']) {
        await page.setViewportSize({ width, height: 900 });
        await page.emulateMedia({ colorScheme: theme });
        assert.deepEqual(await accessibilityFaults(page), [], `${section}, ${width}, ${theme}`);
        assert.equal(await sideways(page), 0, `${section} at ${width} scrolls sideways`);
      }
    }
  }
});
