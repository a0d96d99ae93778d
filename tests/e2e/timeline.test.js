// The timeline: zoom, cursor, pin and minimap, and the panels that show one moment of the run.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  SCREENS,
  accessibilityFaults,
  answered,
  longestTaskMs,
  openExample,
  show,
  sideways,
  useBrowser,
  takePictures,
} from './browser.js';

const browser = useBrowser();

/** Opens an example, and waits until it is drawn. */
async function openDrawn(name) {
  const tab = await openExample(browser, name, 'timeline', '.timeline-range');
  await tab.page.locator('.timeline').evaluate((timeline) => timeline.scrollIntoView());
  return tab;
}

/** The same with every iteration in view. */
async function openWhole(name) {
  const tab = await openDrawn(name);
  await tab.page.getByRole('button', { name: 'All iterations' }).click();
  return tab;
}

/** Opens what an example has in memory at its peak. */
async function openAllocator(name) {
  const tab = await openExample(browser, name, 'allocator', '.segment-pool');
  await tab.page.locator('.segments-totals').getByText('reserved').waitFor();
  return tab;
}

const plotOf = (page) => page.getByRole('slider', { name: /Memory over time/ });
const spokenOf = (page) => page.locator('.timeline-plot [aria-live]').textContent();
const readoutOf = (page) => page.locator('.readout-when').textContent();
const aliveOf = (page) => page.locator('.alive .panel-head').textContent();

/** First and last event that the timeline shows, and how many there are. */
async function range(page) {
  const text = await page.locator('.timeline-range').textContent();
  const [, begin, end, all] = text.match(/events ([\d,]+) to ([\d,]+) of ([\d,]+)/);
  return [begin, end, all].map((number) => Number(number.replaceAll(',', '')));
}

/** The event under the cursor, as the timeline says it. */
async function spokenEvent(page) {
  const [, event] = (await spokenOf(page)).match(/event (\d+) of/);
  return Number(event);
}

/** Middle of an element, or another place on it in shares of its size. */
async function placeOn(page, selector, x = 0.5, y = 0.5) {
  const element = page.locator(selector).first();
  await element.scrollIntoViewIfNeeded();
  const box = await element.boundingBox();
  return [box.x + x * box.width, box.y + y * box.height];
}

test('keys zoom, pan and fit', async () => {
  const { page, errors } = await openDrawn('ResNet-50');
  const plot = plotOf(page);
  await plot.focus();
  // The second iteration is the usual one, and shown first.
  const [usual, usualEnd, all] = await range(page);
  assert.ok(usual > 0 && usualEnd < all - 1);
  assert.equal(await page.getByRole('button', { name: 'Iteration 2' }).getAttribute('aria-pressed'), 'true');
  await plot.press('0');
  const [begin, end] = await range(page);
  assert.deepEqual([begin, end], [0, all - 1]);
  await plot.press('+');
  await plot.press('+');
  const [nearBegin, nearEnd] = await range(page);
  assert.ok(Math.abs(nearEnd - nearBegin + 1 - all / 4) <= 2, 'two steps show a quarter');
  const phases = await page.locator('.timeline-phase').count();
  await plot.press('a');
  const [further] = await range(page);
  assert.ok(further < nearBegin);
  await plot.press('Alt+ArrowRight');
  assert.ok(Math.abs((await range(page))[0] - nearBegin) <= 1, 'there and back');
  await plot.press('-');
  assert.ok((await range(page))[1] - (await range(page))[0] > nearEnd - nearBegin);
  await plot.press('0');
  assert.deepEqual(await range(page), [0, all - 1, all]);
  assert.ok((await page.locator('.timeline-phase').count()) > phases);
  assert.deepEqual(errors, []);
});

test('a pin stays while the pointer moves, and Escape takes it away', async () => {
  const { page, errors } = await openAllocator('ResNet-50');
  assert.match(await aliveOf(page), /Alive at the peak/);
  await show(page, 'timeline');
  await page.mouse.move(...(await placeOn(page, '.timeline-plot', 0.3)));
  assert.match(await readoutOf(page), /At the cursor/);
  await page.mouse.down();
  await page.mouse.up();
  await page.locator('.timeline-pin:visible').waitFor();
  await show(page, 'allocator');
  await page.getByText('Alive at this moment').waitFor();
  const words = await page.locator('.alive-when').textContent();
  await show(page, 'timeline');
  await page.mouse.move(...(await placeOn(page, '.timeline-plot', 0.3)));
  const pinned = await page.locator('.timeline-pin:visible').boundingBox();
  await page.mouse.move(...(await placeOn(page, '.timeline-plot', 0.8)));
  assert.deepEqual(await page.locator('.timeline-pin:visible').boundingBox(), pinned);
  assert.match(await readoutOf(page), /At the cursor/);
  await page.mouse.move(2, 2);
  await show(page, 'allocator');
  assert.equal(await page.locator('.alive-when').textContent(), words);
  await show(page, 'timeline');
  await page.mouse.move(2, 2);
  assert.match(await readoutOf(page), /At the pin/);
  const plot = plotOf(page);
  await plot.focus();
  await plot.press('Escape');
  assert.equal(await page.locator('.timeline-pin:visible').count(), 0);
  assert.match(await readoutOf(page), /At the peak/);
  await plot.press('ArrowLeft');
  await plot.press('Enter');
  await page.locator('.timeline-pin:visible').waitFor();
  assert.match(await spokenOf(page), /^Pinned: /);
  assert.deepEqual(errors, []);
});

test('brackets go from one local peak to the next, p to the highest', async () => {
  const { page } = await openWhole('ResNet-50');
  const plot = plotOf(page);
  await plot.focus();
  await plot.press('p');
  const peak = await spokenEvent(page);
  await plot.press('[');
  const before = await spokenEvent(page);
  assert.ok(before < peak);
  await plot.press(']');
  assert.equal(await spokenEvent(page), peak);
  await plot.press('Home');
  assert.equal(await spokenEvent(page), 0);
});

test('dragging over the picture shows what lies between, a double click shows everything', async () => {
  const { page } = await openWhole('ResNet-50');
  const [, , all] = await range(page);
  await page.mouse.move(...(await placeOn(page, '.timeline-plot', 0.25)));
  await page.mouse.down();
  await page.mouse.move(...(await placeOn(page, '.timeline-plot', 0.4)));
  await page.mouse.move(...(await placeOn(page, '.timeline-plot', 0.5)));
  assert.equal(await page.locator('.timeline-brush:visible').count(), 1);
  await page.mouse.up();
  const [begin, end] = await range(page);
  assert.ok(Math.abs(begin / all - 0.25) < 0.01 && Math.abs(end / all - 0.5) < 0.01);
  assert.equal(await page.locator('.timeline-pin:visible').count(), 0);
  await page.mouse.dblclick(...(await placeOn(page, '.timeline-plot', 0.6)));
  assert.deepEqual(await range(page), [0, all - 1, all]);
  assert.equal(await page.locator('.timeline-pin:visible').count(), 0);
});

test('a wheel with control zooms, sideways it moves, plain it scrolls the page', async () => {
  const { page } = await openWhole('ResNet-50');
  const [, , all] = await range(page);
  await page.mouse.move(...(await placeOn(page, '.timeline-plot')));
  await page.keyboard.down('Control');
  await page.mouse.wheel(0, -100);
  await page.mouse.wheel(0, -100);
  await page.keyboard.up('Control');
  const [begin, end] = await range(page);
  assert.ok(end - begin < all / 2);
  await page.mouse.wheel(120, 0);
  assert.ok((await range(page))[0] > begin);
  const shown = await range(page);
  await page.mouse.wheel(0, 200);
  assert.deepEqual(await range(page), shown);
});

test('the window of the minimap can be drawn, dragged and dropped', async () => {
  const { page } = await openWhole('ResNet-50');
  const [, , all] = await range(page);
  const drag = async (from, to) => {
    await page.mouse.move(...(await placeOn(page, '.minimap', from)));
    await page.mouse.down();
    await page.mouse.move(...(await placeOn(page, '.minimap', (from + to) / 2)));
    await page.mouse.move(...(await placeOn(page, '.minimap', to)));
    await page.mouse.up();
  };
  await drag(0.2, 0.4);
  const [begin, end] = await range(page);
  assert.ok(Math.abs(begin / all - 0.2) < 0.01 && Math.abs(end / all - 0.4) < 0.01);
  await drag(0.3, 0.6);
  const [moved, movedEnd] = await range(page);
  assert.ok(Math.abs(moved / all - 0.5) < 0.01, 'the window follows the pointer');
  assert.equal(movedEnd - moved, end - begin);
  await drag(0.5, 0.6);
  assert.ok(Math.abs((await range(page))[0] / all - 0.6) < 0.01, 'an edge follows the pointer');
});

test('iterations and stacking are chosen beside each other', async () => {
  const { page } = await openWhole('DistilGPT-2');
  const [, , all] = await range(page);
  await page.getByRole('button', { name: 'Iteration 2' }).click();
  const [begin, end] = await range(page);
  assert.ok(begin > 0 && end < all - 1);
  assert.match(await page.locator('.readout-values').textContent(), /activations/);
  await page.locator('.timeline-tools').getByRole('button', { name: 'by module' }).click();
  const legend = await page.locator('.readout-values').textContent();
  assert.match(legend, /all others/);
  assert.ok((await page.locator('.readout-values [class*="module-"]').count()) > 4, legend);
  await page.getByRole('button', { name: 'All iterations' }).click();
  assert.deepEqual(await range(page), [0, all - 1, all]);
  await takePictures(page, 'timeline-modules');
});

test('allocated at and freed at lead to the events of a tensor', async () => {
  const { page, errors } = await openAllocator('ResNet-50');
  const row = page.locator('.alive-row').filter({ hasText: /freed at/ }).first();
  const name = await row.locator('.alive-name').textContent();
  const button = row.getByRole('button', { name: /^allocated at/ });
  const event = Number((await button.textContent()).replace(/\D/g, ''));
  await button.click();
  await page.getByText('Alive at this moment').waitFor();
  await page.waitForFunction(
    (event) => document.querySelector('.timeline-plot').ariaValueNow === String(event),
    event,
  );
  await page.waitForFunction(
    (name) => document.querySelector('.alive-rows').textContent.includes(name),
    name.trim(),
  );
  await show(page, 'timeline');
  await page.locator('.timeline-pin:visible').waitFor();
  assert.equal(await page.locator('.timeline-pin:visible').count(), 1);
  assert.deepEqual(errors, []);
});

test('what is alive can be put together and searched', async () => {
  const { page } = await openAllocator('ResNet-50');
  const rows = page.locator('.alive-rows li');
  await page.getByLabel('Find by name').fill('layer1.0');
  await rows.filter({ hasNotText: 'layer1.0' }).first().waitFor({ state: 'detached' });
  assert.ok((await rows.count()) > 0);
  for (const text of await rows.allTextContents()) assert.match(text, /layer1\.0/);
  await page.getByRole('tab', { name: 'by tensor' }).press('ArrowRight');
  assert.equal(
    await page.getByRole('tab', { name: 'by module' }).getAttribute('aria-selected'),
    'true',
  );
  for (const text of await rows.allTextContents()) assert.match(text, /layer1\.0/);
  await page.getByLabel('Find by name').fill('');
  await page.getByRole('tab', { name: 'by category' }).click();
  assert.match(await rows.allTextContents().then((texts) => texts.join(' ')), /activations.*%/);
  await page.getByLabel('Find by name').fill('no such name');
  await page.getByText('Nothing alive has such a name.').waitFor();
  await page.getByLabel('Find by name').fill('');
  await page.getByRole('tab', { name: 'by tensor' }).click();
  await page.getByRole('button', { name: /^Show all [\d,]+$/ }).click();
  assert.ok((await rows.count()) > 100);
});

test('the question mark opens the keys from everywhere, and closing gives the focus back', async () => {
  const { page } = await openDrawn('ResNet-50');
  const sheet = page.getByRole('dialog', { name: 'Keys of the timeline' });
  const plot = plotOf(page);
  await plot.focus();
  await plot.press('?');
  await sheet.waitFor();
  assert.ok((await sheet.locator('kbd').count()) > 15);
  assert.deepEqual(await accessibilityFaults(page), []);
  await takePictures(page, 'keys');
  await page.keyboard.press('Escape');
  assert.equal(await sheet.count(), 0);
  assert.ok(await plot.evaluate((element) => document.activeElement === element));
  // Where one types it is a letter.
  await page.locator('#open').press('?');
  assert.equal(await sheet.count(), 0);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'All keys' }).click();
  await sheet.getByRole('button', { name: 'Close' }).click();
  assert.equal(await sheet.count(), 0);
});

test('the map of segments speaks to the keyboard, and is a table too', async () => {
  const { page, errors } = await openAllocator('ResNet-50');
  const totals = await page.locator('.segments-totals').textContent();
  const pattern =
    /^[\d,]+ segments, [\d.]+\sGiB reserved, [\d.]+\sGiB in use$/;
  assert.match(totals, pattern);
  const map = page.getByRole('slider', { name: /Map of the segments/ });
  await map.focus();
  await map.press('Home');
  const spoken = page.locator('.segment-map [aria-live]');
  assert.match(await spoken.textContent(), /^[\d.]+\s.iB .+, in segment \d+$/);
  const seen = new Set();
  for (let step = 0; step < 12; step += 1) {
    seen.add(await spoken.textContent());
    await map.press(step % 3 === 2 ? 'ArrowDown' : 'ArrowRight');
  }
  assert.ok(seen.size > 6, [...seen].join('\n'));
  await page.getByText('The segments as a table').click();
  const rows = page.locator('.segments tbody tr');
  await rows.first().waitFor();
  assert.match(totals, new RegExp(`^${await rows.count()} segments`));
  assert.deepEqual(errors, []);
});

test('a row marks its block, and a block its row', async () => {
  const { page } = await openAllocator('ResNet-50');
  const row = page.locator('.alive-row').first();
  await row.hover();
  const name = (await row.locator('.alive-name').textContent()).trim().split(' ').pop();
  const words = await page.locator('.segments-words').textContent();
  assert.ok(words.includes(name), `${words} is about ${name}`);
  await page.mouse.move(...(await placeOn(page, '.segment-map canvas', 0.02, 0.02)));
  await page.waitForFunction(
    () => /, in segment \d+$/.test(document.querySelector('.segments-words').textContent),
  );
});

// Timings are reported and not asserted: they are the machine's as much as the page's.
test('scrubbing ends where the pointer is, and zooming where it began', async (t) => {
  const { page, errors } = await openWhole('ViT-B/16');
  await answered(page);
  await longestTaskMs(page);
  const y = 0.5;
  for (let step = 0; step <= 60; step += 1) {
    await page.mouse.move(...(await placeOn(page, '.timeline-plot', step / 61, y)));
  }
  const scrubbing = await longestTaskMs(page);
  assert.match(await page.locator('.readout-when').textContent(), /At the cursor.*iteration 3/);
  const plot = plotOf(page);
  await plot.focus();
  for (let step = 0; step < 12; step += 1) await plot.press(step < 6 ? '+' : '-');
  const zooming = await longestTaskMs(page);
  t.diagnostic(`longest task while scrubbing ${scrubbing} ms, while zooming ${zooming} ms`);
  assert.match(await page.locator('.timeline-range').textContent(), /^events 0 to/);
  assert.deepEqual(errors, []);
});

test('can be used by everybody, zoomed, pinned and stacked by module', async () => {
  const { page } = await openWhole('ResNet-50');
  await page.locator('.timeline-tools').getByRole('button', { name: 'by module' }).click();
  await page.getByRole('button', { name: 'Zoom in' }).click();
  await page.mouse.click(...(await placeOn(page, '.timeline-plot', 0.4)));
  await page.locator('.timeline-pin:visible').waitFor();
  for (const [section, ready] of [['timeline', '.timeline-pin'], ['allocator', '.segment-pool']]) {
    await show(page, section);
    await page.locator(ready).first().waitFor();
    for (const [name, size] of Object.entries(SCREENS)) {
      for (const theme of ['light', 'dark']) {
        await page.setViewportSize(size);
        await page.emulateMedia({ colorScheme: theme });
        assert.deepEqual(await accessibilityFaults(page), [], `${section}, ${name}, ${theme}`);
        assert.equal(await sideways(page), 0, `${section}, ${name} scrolls sideways`);
        await page.screenshot({
          path: new URL(`./artifacts/${section}-${name}-${theme}.png`, import.meta.url).pathname,
          fullPage: true,
        });
      }
    }
  }
});
