// Times the first answer for an example on an empty browser, a 4 Mbit/s line of 100 ms, and a processor that
// is four times slower: `npm run first-answer` in this folder. The budget is 4 s.
//
// DevTools slow down the page's own thread only, so that the worker's milliseconds, which the page shows, are
// counted four times. The line is the server's, because the worker's requests share it. Times depend on what
// else the machine does: the best of several runs is the nearest to the truth. `RUNS` says how many.

import { OPENED, startBrowser } from './browser.js';

const SLOWDOWN = 4;
const LINE = { delay: 100, rate: 4e6 / 8 };
const EXAMPLES = ['ResNet-50', 'ViT-B/16', 'DistilGPT-2'];
const BUDGET_MS = 4000;

/**
 * Milliseconds from the first request to the headline of an example that is chosen as soon as the field is there.
 * The page's own example is on its way meanwhile, as it is for everybody.
 */
async function firstAnswer(example) {
  const browser = await startBrowser({ line: LINE });
  const page = await browser.context.newPage();
  const session = await browser.context.newCDPSession(page);
  await session.send('Emulation.setCPUThrottlingRate', { rate: SLOWDOWN });
  const begun = performance.now();
  await page.goto(browser.address, { waitUntil: 'commit' });
  const field = page.locator('#open');
  await field.waitFor();
  const shown = performance.now() - begun;
  await field.click();
  await page.locator('.open-entry', { hasText: example }).click();
  await page.locator(`${OPENED} .headline-lead`).waitFor();
  const answered = performance.now() - begun;
  const worker = parseFloat(await page.locator('.facts dd').last().textContent());
  await browser.close();
  return { shown, answered: answered + (SLOWDOWN - 1) * worker, worker };
}

let worst = 0;
for (const example of EXAMPLES) {
  const runs = [];
  for (let run = 0; run < Number(process.env.RUNS ?? 5); run += 1) runs.push(await firstAnswer(example));
  const best = runs.reduce((a, b) => (a.answered < b.answered ? a : b));
  worst = Math.max(worst, best.answered);
  const [shown, answered, worker] = [best.shown, best.answered, best.worker].map(Math.round);
  const all = runs.map(({ answered: ms }) => Math.round(ms)).join(', ');
  console.log(`${example}: page ${shown} ms, answer ${answered} ms (worker ${worker} ms); all: ${all}`);
}
if (worst > BUDGET_MS) {
  console.error(`the first answer takes more than ${BUDGET_MS} ms`);
  process.exitCode = 1;
}
