// Takes the README's pictures from the page as it is built: `npm run pictures` in this folder.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openExample, startBrowser } from './browser.js';

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
