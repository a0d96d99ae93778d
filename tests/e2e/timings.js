// Times what a user does, with the processor as it is and slowed down: `npm run timings` in this folder.
//
// For each story: the longest interaction (from the input to the next paint, as INP counts it), how many
// there were, and the longest task of the main thread. Times depend on the machine and on what else it
// does, so that they are printed and nothing is asserted.

import { chooseExample, openPage, opened, show, startBrowser } from './browser.js';

const SLOWDOWNS = [1, 4];
const EXAMPLES = ['ResNet-50', 'ViT-B/16', 'DistilGPT-2'];

/** Runs inside the page: remembers how long each interaction and each long task took. */
function watchInteractions() {
  globalThis.interactions = new Map();
  new PerformanceObserver((list) => {
    for (const { interactionId, duration, name } of list.getEntries()) {
      if (interactionId === 0) continue;
      const known = globalThis.interactions.get(interactionId);
      if (!known || known.duration < duration) {
        globalThis.interactions.set(interactionId, { name, duration });
      }
    }
  }).observe({ type: 'event', durationThreshold: 16, buffered: true });
}

/** The interactions since the last call, the longest first, in milliseconds. */
async function taken(page) {
  // Entries come after the paint that they tell of.
  await page.waitForTimeout(500);
  return page.evaluate(() => {
    const durations = [...globalThis.interactions.values()].map(({ duration }) => duration);
    globalThis.interactions.clear();
    const tasks = globalThis.longTasksMs.splice(0);
    return { durations: durations.sort((a, b) => b - a), longest: Math.max(0, ...tasks) };
  });
}

async function drag(page) {
  const slider = page.getByRole('slider', { name: 'batch (slider)' });
  const { x, y, width, height } = await slider.boundingBox();
  await page.mouse.move(x + width / 4, y + height / 2);
  await page.mouse.down();
  for (let step = 1; step <= 30; step += 1) {
    await page.mouse.move(x + (width * (30 + step)) / 120, y + height / 2);
    await page.waitForTimeout(30);
  }
  await page.mouse.up();
}

async function keys(page) {
  const slider = page.getByRole('slider', { name: 'batch (slider)' });
  await slider.focus();
  for (let step = 0; step < 20; step += 1) {
    await page.keyboard.press(step < 10 ? 'ArrowRight' : 'ArrowLeft');
    await page.waitForTimeout(100);
  }
}

async function scrub(page) {
  const { x, y, width, height } = await page.locator('.timeline-plot').boundingBox();
  for (let step = 0; step < 30; step += 1) {
    await page.mouse.move(x + (width * (step + 0.5)) / 30, y + height / 2);
    await page.waitForTimeout(16);
  }
  await page.mouse.click(x + width / 2, y + height / 2);
}

async function zoom(page) {
  await page.locator('.timeline-plot').focus();
  for (const key of ['+', '+', 'p', 'ArrowRight', ']', '[', '-', '0', 'Escape']) {
    await page.keyboard.press(key);
    await page.waitForTimeout(100);
  }
}

const STORIES = {
  'drag the batch': drag,
  'batch by keys': keys,
  precision: (page) => page.getByLabel('precision', { exact: true }).press('ArrowDown'),
  'scrub and pin': scrub,
  'keys on the timeline': zoom,
  'another section': (page) => show(page, 'compare'),
  'keep the answer': (page) => page.getByRole('button', { name: 'Keep this answer' }).click(),
  theme: (page) => page.locator('.header-theme').click(),
  'another GPU': (page) => page.locator('#card-t4').click(),
};

for (const slowdown of SLOWDOWNS) {
  const browser = await startBrowser();
  const { page } = await openPage(browser);
  await page.evaluate(watchInteractions);
  const session = await browser.context.newCDPSession(page);
  await session.send('Emulation.setCPUThrottlingRate', { rate: slowdown });
  console.log(`\nthe processor ${slowdown} times slower`);
  const say = (story, { durations, longest }, more = '') => {
    const worst = durations.length > 0 ? `${durations[0]} ms` : 'under 16 ms';
    console.log(`${story.padEnd(24)} ${worst.padStart(12)}, task ${Math.round(longest)} ms${more}`);
  };
  for (const example of EXAMPLES) {
    if (await page.locator('#close').count()) {
      await page.getByRole('button', { name: 'Close this model' }).click();
      await page.waitForTimeout(200);
      await taken(page);
    }
    const begun = Date.now();
    await chooseExample(page, example);
    await opened(page);
    const answered = Date.now() - begun;
    await page.waitForTimeout(4000);
    say(`open ${example}`, await taken(page), `, first answer after ${answered} ms`);
  }
  for (const [story, act] of Object.entries(STORIES)) {
    await act(page);
    await page.waitForTimeout(1500);
    say(story, await taken(page));
  }
  await browser.close();
}
