// No input can break the layout or freeze the page: names without end, modules without number.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SCREENS, dropFile, openPage, opened, show, sideways, useBrowser, takePictures } from './browser.js';

const browser = useBrowser();

// As long as a layer's name may be; a file's may be longer.
const LONG = 'W'.repeat(64);
const FILE = `${LONG.repeat(3)}.yaml`;
const MANY = 1500;
const WIDTHS = [320, 760, 900, 1024, 2560].map((width) => ({ width, height: 800 }));

const spec = `input: [N, 64]
dims: {N: 32}
layers:
${Array.from({ length: MANY }, (_, n) => `  - {name: ${n === 0 ? LONG : `layer_${n}`}, linear: 64}`).join('\n')}
`;

test('names without a break and 1500 modules stay within the window', async () => {
  const { page, errors } = await openPage(browser);
  await dropFile(page, { name: FILE, bytes: Buffer.from(spec) });
  await opened(page);
  await page.locator('.timeline-tools').getByRole('button', { name: 'by module' }).click();
  await show(page, 'allocator');
  await page.locator('.alive').getByRole('tab', { name: 'by module' }).click();
  for (const section of ['timeline', 'peak', 'suggestions', 'gpus', 'growth', 'allocator', 'compare', 'assumptions']) {
    await show(page, section);
    for (const size of [...Object.values(SCREENS), ...WIDTHS]) {
      await page.setViewportSize(size);
      assert.equal(await sideways(page), 0, `${section} at ${size.width} px: scrolls sideways`);
    }
  }
  await show(page, 'timeline');
  await page.evaluate(() => globalThis.scrollTo(0, 0));
  await takePictures(page, 'hostile');
  assert.deepEqual(errors, []);
});

test('sizes that are none are refused, and sizes beyond all cards are answered', async () => {
  const { page, errors } = await openPage(browser);
  await dropFile(page, { name: 'small.yaml', bytes: Buffer.from(spec.split('\n').slice(0, 5).join('\n')) });
  await opened(page);
  const size = page.getByRole('spinbutton', { name: 'N' });
  await size.fill('1000000000');
  await page.getByText(/Does not fit on any of/).waitFor();
  await size.fill('0');
  await page.locator('.hint-wrong').getByText('1000000000 is unchanged').waitFor();
  assert.ok(await page.locator('.headline-lead').isVisible());
  await size.fill('16');
  await page.getByText(/Fits on all/).waitFor();
  assert.deepEqual(errors, []);
});
