// Lessons on the real tool, and the page inside slides and notebooks.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  SCREENS,
  accessibilityFaults,
  openPage,
  useBrowser,
  takePictures,
} from './browser.js';

const SPEC = `input: [N, 64]
dims: {N: 32}
layers:
  - linear: 128
  - relu
  - linear: 10
`;

const ARTIFACTS = fileURLToPath(new URL('./artifacts/', import.meta.url));

const browser = useBrowser();

const press = (page, name) => page.getByRole('button', { name, exact: true }).click();
const step = (page) => page.locator('.lesson-count').textContent();

/** A number of bytes from what the page shows, as in `64.07 MiB`. */
function bytes(text) {
  const [, number, unit] = /([\d.]+)\s*([KMG]iB)/.exec(text);
  return Number(number) * 1024 ** (' KMG'.indexOf(unit[0]));
}

/** Whether a part of the page is seen; what is only made transparent to the eye does not count. */
const isSeen = (page, selector) => page.locator(selector).first().isVisible();

test('a lesson hides the answer until one has guessed, and says how near that was', async () => {
  const { page, errors } = await openPage(browser);
  await page.getByText('Learn how memory behaves').click();
  await page.getByRole('button', { name: /Why is Adam/ }).click();
  await page.locator('.lesson-text').filter({ hasText: 'iteration peaks at' }).waitFor();
  assert.equal(await step(page), 'Step 1 of 2');
  // The first iteration is shown, with its sizes; nothing of the second, and no answer.
  assert.ok(await isSeen(page, '.timeline-plot'), 'the picture stays');
  assert.ok(await isSeen(page, '.timeline-axis'), 'with its sizes');
  assert.equal(await page.getByRole('button', { name: 'Iteration 1' }).getAttribute('aria-pressed'), 'true');
  const tell = ['.headline-lead', '.headline-rest', '.gpu-card-line', '.need', '.readout', '.tabs', '.module-tree'];
  for (const told of [...tell, '.minimap', '.answer > [role="status"]']) {
    assert.ok(!(await isSeen(page, told)), `${told} would tell`);
  }
  assert.ok(await page.locator('.timeline').evaluate((timeline) => timeline.inert), 'no key and no pointer asks it');
  const lesson = await page.locator('.lesson').boundingBox();
  const answer = await page.locator('.answer').boundingBox();
  assert.ok(lesson.y < answer.y, 'the lesson stands above the answer');
  await takePictures(page, 'lesson-asking');
  assert.deepEqual(await accessibilityFaults(page), []);
  await page.setViewportSize(SCREENS.desktop);

  await page.getByRole('slider', { name: /peak of the second/ }).fill('150');
  assert.match(await page.locator('output.lesson-guess').textContent(), /^300(\.\d+)?\sMiB$/);
  await press(page, 'That is my guess: show me');
  const told = page.locator('.lesson-text').nth(1);
  await told.waitFor();
  assert.ok(await isSeen(page, '.headline-lead'));
  assert.equal(await page.getByRole('button', { name: 'All iterations' }).getAttribute('aria-pressed'), 'true');
  assert.match(await page.locator('.lesson-verdict').textContent(), /\d/);
  const first = bytes(await page.locator('.lesson-text').first().textContent());
  assert.ok(bytes(await told.textContent()) > first + 30 * 1024 ** 2, await told.textContent());
  await takePictures(page, 'lesson-told');
  assert.deepEqual(await accessibilityFaults(page), []);

  await press(page, 'Next');
  await page.locator('.lesson-text').filter({ hasText: 'Plain SGD' }).waitFor();
  assert.equal(await page.getByLabel('optimizer', { exact: true }).inputValue(), 'sgd');
  await press(page, 'Back');
  assert.equal(await step(page), 'Step 1 of 2');
  await press(page, 'End the lesson');
  await page.locator('.lesson').waitFor({ state: 'detached' });
  assert.ok(await page.locator('.headline').isVisible(), 'the model stays');
  assert.deepEqual(errors, []);
});

test('where the picture would tell the answer, its sizes are hidden while one guesses', async () => {
  const { page, errors } = await openPage(browser, '?lesson=reserved');
  await page.locator('.lesson-text').filter({ hasText: 'Three convolutions' }).waitFor();
  const sizes = ['.timeline-axis', '.timeline-peak', '.timeline-labels'];
  assert.ok(await isSeen(page, '.timeline-plot'), 'the shape stays');
  for (const told of sizes) assert.ok(!(await isSeen(page, told)), `${told} would tell`);
  await press(page, 'That is my guess: show me');
  for (const told of sizes.slice(0, 2)) await page.locator(told).waitFor();
  assert.deepEqual(errors, []);
  await page.close();
});

test('what the first step sets is set: checkpointing shows less than it says', async () => {
  const { page } = await openPage(browser, '?lesson=checkpointing');
  await page.locator('.lesson-text').filter({ hasText: '1.90 GiB' }).waitFor();
  await press(page, 'That is my guess: show me');
  const told = page.locator('.lesson-text').nth(1);
  await told.waitFor();
  assert.ok(bytes(await told.textContent()) < (1.9 * 1024 ** 3 * 3) / 5, await told.textContent());
  assert.equal(await page.evaluate(() => document.activeElement.id), 'lesson-title');
});

test('at a projector the answer of a lesson and the way on are in sight', async () => {
  for (const [width, height] of [[1280, 800], [1024, 768]]) {
    const { page } = await openPage(browser, '?lesson=second-step&present=1');
    await page.setViewportSize({ width, height });
    await page.locator('.lesson-text').filter({ hasText: 'iteration peaks at' }).waitFor();
    await press(page, 'That is my guess: show me');
    const told = page.locator('.lesson-text').nth(1);
    await told.waitFor();
    const inside = await page.locator('.lesson').boundingBox();
    for (const part of [told, page.locator('#lesson-next')]) {
      const box = await part.boundingBox();
      assert.ok(box.y >= inside.y, `${width} px: begins at ${box.y} in ${inside.y}`);
      const end = Math.min(inside.y + inside.height, height);
      assert.ok(box.y + box.height <= end, `${width} px: ends at ${box.y + box.height} of ${end}`);
    }
    await page.screenshot({ path: join(ARTIFACTS, `lesson-present-${width}.png`) });
    await page.close();
  }
});

test('every lesson can be gone through to its end', async () => {
  for (const id of ['tour', 'saved-for-backward', 'reserved', 'checkpointing', 'mixed-precision', 'fragmentation']) {
    const { page, errors } = await openPage(browser, `?lesson=${id}`);
    const [, all] = /of (\d+)/.exec(await step(page));
    for (let at = 1; at <= Number(all); at += 1) {
      await page.waitForFunction(
        (begin) => document.querySelector('.lesson-count')?.textContent.startsWith(begin),
        `Step ${at} of`,
      );
      await page.waitForFunction(() => document.querySelector('.lesson-text').textContent !== '');
      assert.doesNotMatch(await page.locator('.lesson').textContent(), /[{}]/, id);
      const show = page.getByRole('button', { name: /show me/ });
      if (await show.isVisible()) await show.click();
      await press(page, at === Number(all) ? 'Done' : 'Next');
    }
    await page.locator('.lesson').waitFor({ state: 'detached' });
    assert.deepEqual(errors, [], id);
    await page.close();
  }
});

test('a page around it opens a model, changes settings and is told the answer', async () => {
  const { page, errors } = await openPage(browser);
  // The page itself allows no frames: the slide is another one.
  const body = '<iframe src="./?embed=1" width="900" height="700"></iframe>';
  await page.route('**/slide.html', (route) => route.fulfill({ contentType: 'text/html', body }));
  const remember = () => {
    globalThis.told = [];
    addEventListener('message', ({ data }) => globalThis.told.push(data));
  };
  await page.addInitScript(remember);
  await page.goto(`${browser.address}slide.html`);
  // The sentence grows while GPUs are looked at, and is told again.
  const answer = async (device) => {
    const told = (device) =>
      globalThis.told.findLast((data) => data.highwater === 'answer' && data.device === device);
    await page.waitForFunction(told, device);
    return page.evaluate(told, device);
  };
  const say = (message) =>
    page.evaluate((message) => frames[0].postMessage(message, '*'), message);
  await page.waitForFunction(() => globalThis.told.some((data) => data.highwater === 'ready'));
  await say({ highwater: 'open', name: 'slide.yaml', text: SPEC });
  const before = await answer('a100-80gb');
  assert.equal(before.name, 'slide.yaml');
  assert.match(before.sentence, /MiB/);
  assert.equal(before.verdict, 'fits');
  assert.ok(before.peak_reserved >= before.peak_allocated);
  await say({ highwater: 'set', settings: { N: 65536, device: 't4' } });
  const after = await answer('t4');
  assert.ok(after.peak_allocated > 5 * before.peak_allocated, JSON.stringify(after));
  const frame = page.frames()[1];
  assert.ok(await frame.locator('.headline').isVisible());
  assert.ok(await frame.locator('.header').isHidden(), 'what is around the answer is not there');
  // Before anything is opened there is no example either: the page around it speaks first.
  const { page: alone } = await openPage(browser);
  await alone.addInitScript(remember);
  await alone.route('**/slide.html', (route) => route.fulfill({ contentType: 'text/html', body }));
  await alone.goto(`${browser.address}slide.html`);
  const empty = alone.frames()[1];
  await empty.locator('.hero').waitFor();
  await alone.evaluate((message) => frames[0].postMessage(message, '*'), { highwater: 'open', name: 'first.yaml', text: SPEC });
  await alone.waitForFunction(() => globalThis.told.some((data) => data.highwater === 'answer'));
  const named = await alone.evaluate(() => globalThis.told.map((data) => data.name).filter(Boolean));
  assert.deepEqual([...new Set(named)], ['first.yaml']);
  assert.deepEqual(errors, []);
});

test('a presenter gets large type', async () => {
  const { page } = await openPage(browser, '?present=1');
  const size = await page.evaluate(() =>
    Number.parseFloat(getComputedStyle(document.querySelector('h1')).fontSize),
  );
  const { page: usual } = await openPage(browser);
  const before = await usual.evaluate(() =>
    Number.parseFloat(getComputedStyle(document.querySelector('h1')).fontSize),
  );
  assert.ok(size > 1.15 * before, `${size} after ${before} px`);
});
