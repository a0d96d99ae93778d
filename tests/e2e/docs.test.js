// The documentation's pages: they can be read on every screen and without scripts, searched, and kept.

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { SCREENS, accessibilityFaults, openPage, sideways, useBrowser } from './browser.js';
import { DIST } from './server.js';

const browser = useBrowser({ serviceWorkers: 'allow' });

/** A page of each kind: the first one, much text, wide tables, pictures, results, and lessons. */
const KINDS = [
  'index',
  'inputs',
  'accuracy',
  'cluster',
  'results/accuracy',
  'results/measured',
  'results/scoreboard',
  'lessons/second-step',
  'lessons/tour',
];

/** Their thousands of cells are those of smaller tables, and take axe a while: it looks at them once. */
const LARGE = ['results/accuracy', 'results/scoreboard'];

/** Opens a page of the documentation in a new tab. */
async function openDocs(name, context = browser.context) {
  const page = await context.newPage();
  const [errors, requests] = [[], []];
  page.on('request', (request) => requests.push(request.url()));
  page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
  page.on('pageerror', (error) => errors.push(String(error)));
  await page.goto(`${browser.address}docs/${name}.html`);
  await page.locator('h1').waitFor();
  return { page, errors, requests };
}

const field = (page) => page.getByRole('searchbox', { name: 'Search the documentation' });
const results = (page) => page.locator('#found li');

/** Types into the field, and waits for what is said of the results. */
async function search(page, query, said = /result/) {
  await field(page).fill('');
  await page.waitForFunction(() => document.querySelector('#found p').textContent === '');
  await field(page).fill(query);
  await page.getByRole('status').filter({ hasText: said }).waitFor();
}

for (const name of KINDS) {
  test(`${name}: nothing is wrong for axe, in both themes and on every screen`, async () => {
    const { page, errors } = await openDocs(name);
    for (const colorScheme of LARGE.includes(name) ? ['dark'] : ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      assert.deepEqual(await accessibilityFaults(page), [], colorScheme);
    }
    for (const screen of [SCREENS.tablet, SCREENS.phone, { width: 320, height: 640 }]) {
      await page.setViewportSize(screen);
      assert.equal(await sideways(page), 0, `${screen.width} px`);
    }
    if (!LARGE.includes(name)) assert.deepEqual(await accessibilityFaults(page), [], 'on a narrow screen');
    assert.deepEqual(errors, []);
  });
}

test('every link of every page leads to a page and a section that is there', async () => {
  const names = (await readdir(join(DIST, 'docs'), { recursive: true })).filter((name) => name.endsWith('.html'));
  assert.ok(names.length > 40, `${names.length} pages`);
  const texts = new Map();
  for (const name of names) texts.set(name, await readFile(join(DIST, 'docs', name), 'utf8'));
  for (const [name, text] of texts) {
    for (const [, link] of text.matchAll(/<(?:a|img|link|script)[^>]* (?:href|src)="([^"]+)"/g)) {
      const { pathname, hash, origin } = new URL(link, `http://page/docs/${name}`);
      if (origin !== 'http://page') continue;
      const file = pathname.endsWith('/') ? `${pathname}index.html` : pathname;
      await readFile(join(DIST, file)).catch(() => assert.fail(`${name}: ${link}`));
      const target = texts.get(file.replace('/docs/', ''));
      if (hash && target) assert.ok(target.includes(` id="${hash.slice(1)}"`), `${name}: ${link}`);
    }
  }
});

test('search finds sections, shows where they are, and follows one by keys', async () => {
  const { page, errors, requests } = await openDocs('lessons/tour');
  await page.waitForLoadState('networkidle');
  const isIndex = (url) => /docs-search-\w+\.json$/.test(url);
  assert.ok(!requests.some(isIndex), 'nothing is fetched for search before it is used');
  await page.keyboard.press('/');
  await search(page, 'checkpointing');
  assert.ok(requests.some(isIndex));
  const names = await results(page).locator('strong').allTextContents();
  assert.ok(names.some((name) => name.startsWith('What does checkpointing trade?')), names.join('\n'));
  assert.ok(names.some((name) => name.endsWith('› Checkpointing')), names.join('\n'));
  assert.ok((await results(page).locator('mark').count()) > 0);
  assert.deepEqual(await accessibilityFaults(page), []);
  // Words that no page has in this form are found in another.
  await search(page, 'checkpointings');
  // What regular expressions have signs for.
  await search(page, '--batch');
  await search(page, '(.pt2)');
  await search(page, 'xyzzy', /Nothing found for “xyzzy”/);
  assert.equal(await results(page).count(), 0);
  await search(page, 'memory snapshot');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  const chosen = results(page).nth(1).locator('a');
  assert.ok(await chosen.evaluate((link) => link === document.activeElement));
  const href = await chosen.evaluate((link) => link.href);
  await page.keyboard.press('Escape');
  assert.equal(await results(page).count(), 0);
  assert.ok(await field(page).evaluate((it) => it === document.activeElement));
  await search(page, 'memory  snapshot');
  await results(page).nth(1).locator('a').press('Enter');
  await page.waitForURL(href);
  assert.deepEqual(errors, []);
});

test('the estimator links to it, and a lesson’s page starts the lesson', async () => {
  const { page } = await openPage(browser);
  await page.locator('summary', { hasText: 'Learn' }).first().click();
  await page.getByRole('link', { name: 'Documentation' }).click();
  await page.getByRole('heading', { level: 1, name: 'Documentation' }).waitFor();
  await page.getByRole('navigation', { name: 'All pages' }).getByRole('link', { name: /Why is Adam/ }).click();
  await page.getByText('Show the answer').first().click();
  const answer = await page.locator('.docs-answer').first().locator('p').first().textContent();
  assert.match(answer, /^[\d.]+\s[KMG]iB\. /);
  await page.getByRole('link', { name: 'Start this lesson in the estimator' }).click();
  await page.locator('.lesson-text').filter({ hasText: 'iteration peaks at' }).waitFor();
  // Its numbers are those of the estimator.
  await page.getByRole('button', { name: 'That is my guess: show me' }).click();
  const [number] = /[\d.]+\s[KMG]iB/.exec(answer);
  await page.locator('.lesson-verdict', { hasText: number.replace(/\s/, ' ') }).waitFor();
});

test('can be read without scripts', async () => {
  const context = await browser.context.browser().newContext({ javaScriptEnabled: false });
  const { page } = await openDocs('inputs', context);
  assert.ok(await page.locator('.docs-contents a').first().isVisible());
  assert.ok(!(await page.locator('.docs-search').isVisible()), 'a field that could find nothing');
  await page.getByRole('link', { name: 'Models by name', exact: true }).click();
  await page.getByRole('heading', { level: 1 }).waitFor();
  await context.close();
});

test('has the theme that was chosen in the estimator', async () => {
  const { page } = await openPage(browser);
  await page.getByRole('button', { name: 'Switch to the dark theme' }).click();
  await page.goto(`${browser.address}docs/inputs.html`);
  assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark');
});

test('works without a network, pages that were never visited too', async () => {
  const { page } = await openPage(browser);
  await page.waitForFunction(() => navigator.serviceWorker.controller !== null);
  await browser.context.setOffline(true);
  try {
    await page.goto(`${browser.address}docs/`);
    await page.getByRole('heading', { level: 1, name: 'Documentation' }).waitFor();
    await search(page, 'checkpointing');
    await results(page).first().locator('a').click();
    await page.waitForURL(/docs\/.+\.html/);
    await page.locator('h1', { hasText: /./ }).waitFor();
  } finally {
    await browser.context.setOffline(false);
  }
});
