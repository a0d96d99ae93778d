// Takes the README's pictures from the page as it is built: `npm run pictures` in this folder.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chooseDevice, openExample, show, startBrowser } from './browser.js';

const PICTURES = fileURLToPath(new URL('../../docs/pictures/', import.meta.url));
mkdirSync(PICTURES, { recursive: true });

/** Opens an example on a page of this size, and waits until all that follows from it is there. */
async function opened(screen, theme, example) {
  const browser = await startBrowser({ screen, theme });
  const { page } = await openExample(browser, example);
  await page.waitForFunction(() => {
    const batches = [...document.querySelectorAll('.gpu-card-batch')].slice(0, 5);
    window.scrollTo(0, 0);
    return batches.length > 0 && batches.every((cell) => cell.textContent !== '…');
  });
  return { browser, page };
}

for (const theme of ['light', 'dark']) {
  const { browser, page } = await opened({ width: 1280, height: 900 }, theme, 'ResNet-50');
  await page.screenshot({ path: join(PICTURES, `page-${theme}.png`) });
  await browser.close();
}

// Taller than either panel: what does not fit is painted too late for a picture.
const { browser, page } = await opened({ width: 1280, height: 1200 }, 'light', 'GPT-2');
await chooseDevice(page, 'rtx-2080-ti');
await show(page, 'suggestions');
await page.getByRole('spinbutton', { name: 'batch' }).fill('32');
await page.getByText('Does not fit on a GeForce RTX 2080 Ti').waitFor();
await page.getByRole('button', { name: /smallest change that fits/i }).click();
await page.locator('.fit-plan').waitFor();
await page.waitForFunction(() => !document.querySelector('.lever-stale'));
await page.locator('.helps').screenshot({ path: join(PICTURES, 'what-helps.png') });
await show(page, 'allocator');
await page.locator('.segment-pool').first().waitFor();
await page.locator('.at-cursor').screenshot({ path: join(PICTURES, 'at-the-peak.png') });
await browser.close();
