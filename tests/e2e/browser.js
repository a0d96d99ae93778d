// The verbs of the browser tests: open the page, drop a file on it, look at it, time it.
//
// A test waits for the state that it asks about, never for a time, and never for "something changed": a busy
// machine shows states in another order. `answered` waits for the answer to what is set now.

import assert from 'node:assert/strict';
import { accessSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, delimiter, join } from 'node:path';
import { after, afterEach, before, beforeEach } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inflateRawSync } from 'node:zlib';
import axe from 'axe-core';
import { chromium } from 'playwright-core';
import { serveDist } from './server.js';

const ARTIFACTS = fileURLToPath(new URL('./artifacts/', import.meta.url));
const FIXTURES = fileURLToPath(new URL('../fixtures/', import.meta.url));

export const SCREENS = {
  desktop: { width: 1440, height: 900 },
  tablet: { width: 834, height: 1112 },
  phone: { width: 390, height: 844 },
};

// A sandbox needs a user that is not root; the rest keeps the browser from calling home.
const BROWSER_FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/**
 * The set-up of a file of tests: serves the page and starts a browser for all of them, and gives each test an
 * empty profile of its own as `context`, which ends with the test.
 */
export function useBrowser(options) {
  const browser = {};
  before(async () => Object.assign(browser, await launch(options)));
  beforeEach(async () => {
    browser.context = await browser.fresh();
  });
  afterEach(() => browser.context.close());
  after(() => browser.close?.());
  return browser;
}

/** The same without tests around it, with one empty profile as `context`; `close` ends it. */
export async function startBrowser(options) {
  const browser = await launch(options);
  return { ...browser, context: await browser.fresh() };
}

/** Serves the page and starts a browser; `fresh` gives an empty profile, `close` ends both. */
async function launch({
  screen = SCREENS.desktop,
  theme = 'light',
  // What keeps the page for later has tests of its own; elsewhere it would be one more party.
  serviceWorkers = 'block',
  permissions = [],
  // What all files come through; see server.js.
  line = undefined,
} = {}) {
  const server = await serveDist('/', undefined, line);
  const started = await chromium.launch({
    executablePath: findChromium(),
    headless: true,
    args: BROWSER_FLAGS,
  });
  const fresh = () =>
    started.newContext({
      viewport: screen,
      colorScheme: theme,
      reducedMotion: 'reduce',
      serviceWorkers,
      permissions,
    });
  const close = async () => {
    await started.close();
    await server.close();
  };
  return { fresh, address: server.address, close };
}

function findChromium() {
  const folders = (process.env.PATH ?? '').split(delimiter);
  const names = ['chromium', 'chromium-browser', 'google-chrome'];
  const candidates = names.flatMap((name) => folders.map((folder) => join(folder, name)));
  const found = [process.env.CHROMIUM, ...candidates].find((path) => path && isThere(path));
  if (!found) throw new Error('no Chromium on PATH: install one, or name it in CHROMIUM');
  return found;
}

function isThere(path) {
  try {
    accessSync(path);
    return true;
  } catch {
    return false;
  }
}

/**
 * Opens the page in a new tab and waits for its heading.
 *
 * The result keeps watching: `errors` fills with what the console and uncaught exceptions say,
 * `requests` with the address of every request but for the readers, cuDNN's choices and the families of models,
 * `loaded()` forgets those made so far.
 */
export async function openPage({ context, address }, path = '') {
  const page = await context.newPage();
  const errors = [];
  const requests = [];
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(message.text());
  });
  page.on('pageerror', (error) => errors.push(String(error)));
  // Of the context, so that the worker's requests are seen as well.
  // The readers of models, with what other parts share, come by themselves, once the first answer is there or the page
  // is idle; cuDNN's choices for other cards when they are judged; the families of models for the first configuration
  // or print; the icon when the browser likes.
  const itself = ['icon-', 'highwater-desk', 'highwater-reader', 'highwater-shared', 'choices-', 'families-'].map((begins) => address + begins);
  const isAsked = (url) => !itself.some((begins) => url.startsWith(begins));
  context.on('request', (request) => isAsked(request.url()) && requests.push(request.url()));
  await page.addInitScript(watchLongTasks);
  await page.goto(address + path);
  await page.locator('h1').first().waitFor();
  await page.waitForLoadState('networkidle');
  // The empty page answers for an example by itself, unless the address names something else: first with what travels
  // with it, then the worker tells how long a step takes.
  const isNamed = new URL(page.url()).hash !== '' || /embed|lesson/.test(page.url());
  if (!isNamed && (await page.locator('.hero').count())) await page.locator('.sample .answer[aria-busy="false"]').waitFor();
  const loaded = () => requests.splice(0);
  return { page, errors, requests, loaded };
}

/** Lets requests wait until the result is called. */
export async function holdBack(context, pattern) {
  let letGo;
  const gate = new Promise((resolve) => (letGo = resolve));
  await context.route(pattern, async (route) => {
    await gate;
    await route.continue();
  });
  return letGo;
}

/** What the page is once the user has opened something. */
export const OPENED = 'main:not(.main-empty)';

/** Waits until something that the user opened is answered: any, or what has this name. */
export async function opened(page, name = '') {
  await page.locator('.chip:not(.chip-busy)', { hasText: name }).waitFor();
  await page.locator(`${OPENED} .headline-lead`).waitFor();
}

/** Waits until the page shows the answer for what is set now, with a verdict for every GPU. */
export const answered = (page) => page.locator('.answer[aria-busy="false"]').waitFor();

/** Opens an example in a new tab, shows a section of its answer, and waits for `ready`, a selector. */
export async function openExample(browser, name, section = undefined, ready = '.headline-lead') {
  const tab = await openPage(browser);
  tab.loaded();
  await chooseExample(tab.page, name);
  await opened(tab.page);
  if (section) await show(tab.page, section);
  await tab.page.locator(`${OPENED} ${ready}`).first().waitFor();
  return tab;
}

/** Chooses an entry of the field that opens things: an example, something opened before, the editor. */
export async function chooseEntry(page, name) {
  await page.locator('#open').click();
  await page.locator('.open-entry', { hasText: name }).first().click();
}

/** Chooses an example in the field that opens things. */
export const chooseExample = chooseEntry;

/** Shows a section of the answer: its id. By a key, since the row of tabs may move under a pointer. */
export async function show(page, section) {
  await page.locator(`#tab-${section}`).press('Enter');
  await page.locator(`#section-${section}`).waitFor();
  // Some come with a part of the program.
  await page.locator(`#section-${section} > *`).first().waitFor({ state: 'attached' });
}

/** Unfolds the settings that are not always in view. */
export async function unfoldSettings(page) {
  const settings = page.locator('.more-settings');
  if (!(await settings.evaluate((details) => details.open))) await settings.locator('> summary').click();
}

/** Unfolds the message or the recipe above an answer. */
export async function unfoldMessage(page) {
  const message = page.locator('#message');
  await message.waitFor();
  if (!(await message.evaluate((details) => details.open))) await message.locator('> summary').click();
  await message.locator('.message-columns').waitFor();
}

/** Whether the top of an element is on the first screen, without scrolling. */
export const isInSight = (page, selector) =>
  page.locator(selector).first().evaluate((element) => {
    const { top, height } = element.getBoundingClientRect();
    return globalThis.scrollY === 0 && height > 0 && top >= 0 && top < globalThis.innerHeight;
  });

/** The settings' field for the device. */
export const deviceField = (page) => page.locator('select#device');

/** Chooses a device, by its id, among all settings. */
export async function chooseDevice(page, id) {
  await unfoldSettings(page);
  await deviceField(page).selectOption(id);
}

/** Bytes that are allocated at the peak, exactly: the first part of the need. */
export async function peakBytes(page) {
  const exact = await page.locator('.need-part dd [title]').first().getAttribute('title');
  return Number(exact.replace(/\D/g, ''));
}

/** Waits until something holds that the page is asked for again and again; `what` is said where it never does. */
export async function until(page, what, check) {
  const end = Date.now() + 30_000;
  while (!(await check())) {
    if (Date.now() > end) throw new Error(`never: ${what}`);
    await page.evaluate(() => new Promise(requestAnimationFrame));
  }
}

/** Does something to the settings, and gives the peak of the answer to it, in bytes. */
export async function changesPeak(page, act) {
  await act();
  await answered(page);
  return peakBytes(page);
}

/** COUNT of pixels that the page is wider than the window. */
export const sideways = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

/**
 * The texts that do not fit into their boxes, a line for each: elements with a text of their own that are in
 * view and wider inside than outside. What scrolls or ends with an ellipsis is meant to be so.
 */
export function overflowing(page) {
  return page.evaluate(() => {
    const hasText = (element) =>
      [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    const cut = (style) => style.textOverflow === 'ellipsis' || /auto|scroll/.test(style.overflowX);
    const isMeant = (element) => {
      for (let at = element; at; at = at.parentElement) {
        if (cut(getComputedStyle(at))) return true;
      }
      return false;
    };
    const faults = [];
    for (const element of document.querySelectorAll('body *')) {
      if (!hasText(element) || element.closest('.hidden-text, .skip, svg, option')) continue;
      if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
      const style = getComputedStyle(element);
      // Of an inline element the box is its text; it has to fit into the block around it.
      let box = element;
      while (getComputedStyle(box).display === 'inline') box = box.parentElement;
      const outer = box.getBoundingClientRect();
      const range = document.createRange();
      const overs = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()).map((node) => {
        range.selectNodeContents(node);
        const text = range.getBoundingClientRect();
        if (text.width === 0) return 0;
        return Math.max(text.right - outer.right, outer.left - text.left);
      });
      // What only screen readers see takes no room.
      const inside = box.querySelector('.hidden-text') ? 0 : box.scrollWidth - box.clientWidth;
      const over = Math.max(inside, ...overs);
      if (over > 1 && style.position !== 'absolute' && !isMeant(element)) {
        const place = element.className || element.tagName;
        faults.push(`${place}: “${element.textContent.trim().slice(0, 40)}” is ${Math.round(over)} px too wide`);
      }
    }
    return faults;
  });
}

/** Runs inside the page: remembers every task that blocked the main thread for 50 ms or more. */
function watchLongTasks() {
  globalThis.longTasksMs = [];
  globalThis.watchedSinceMs = performance.now();
  new PerformanceObserver((list) => {
    globalThis.longTasksMs.push(...list.getEntries().map((entry) => entry.duration));
  }).observe({ type: 'longtask', buffered: true });
}

/** The longest task of the main thread since the last call, in milliseconds; 0 if all were short. */
export async function longestTaskMs(page) {
  return (await longestTask(page)).ms;
}

/** The same, and as a share of the time since then, which means the same on a slow machine. */
export function longestTask(page) {
  return page.evaluate(() => {
    const ms = Math.max(0, ...globalThis.longTasksMs.splice(0));
    const since = globalThis.watchedSinceMs;
    globalThis.watchedSinceMs = performance.now();
    return { ms, share: ms / (globalThis.watchedSinceMs - since) };
  });
}

/** Drops a file of tests/fixtures (or `{ name, bytes }`) onto an element, as a person would; or several. */
export async function dropFile(page, files, selector = 'body') {
  const read = async (file) => {
    const { name, bytes, repeated } =
      typeof file === 'string'
        ? { name: basename(file), bytes: await readFile(join(FIXTURES, file)) }
        : file;
    return { name, base64: Buffer.from(bytes).toString('base64'), repeated };
  };
  const transfer = await page.evaluateHandle(makeTransfer, await Promise.all([files].flat().map(read)));
  for (const event of ['dragenter', 'dragover', 'drop']) {
    await page.dispatchEvent(selector, event, { dataTransfer: transfer });
  }
}

/** Runs inside the page: what the browser hands to a drop handler. A large file is the same text
 * before many copies of another: `repeated: [text, times]`. */
function makeTransfer(files) {
  const transfer = new DataTransfer();
  for (const { name, base64, repeated: [text, times] = ['', 0] } of files) {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    transfer.items.add(new File([bytes, ...Array(times).fill(text)], name));
  }
  return transfer;
}

/** Pastes as the user's keyboard would. */
export function paste(page, text) {
  return page.evaluate((text) => {
    const data = new DataTransfer();
    data.setData('text/plain', text);
    const event = new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true });
    document.body.dispatchEvent(event);
  }, text);
}

/** Saves pictures of the page on every screen and in both themes to tests/e2e/artifacts. */
export async function takePictures(page, name) {
  for (const [screen, size] of Object.entries(SCREENS)) {
    for (const theme of ['light', 'dark']) {
      await page.setViewportSize(size);
      await page.emulateMedia({ colorScheme: theme });
      await page.screenshot({ path: join(ARTIFACTS, `${name}-${screen}-${theme}.png`) });
    }
  }
}

/** What axe finds wrong with the page's accessibility, a line for each rule that is broken. */
export async function accessibilityFaults(page) {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations.map(({ id, help, nodes }) => {
    const places = nodes.map((node) => node.target.join(' ')).join(', ');
    return `${id}: ${help} (${places})`;
  });
}

/** The state in an address. */
export function stateOf(url) {
  const fragment = new URL(url).hash.slice(1);
  assert.match(fragment, /^v1\.[\w-]+$/);
  return JSON.parse(inflateRawSync(Buffer.from(fragment.slice(3), 'base64url')).toString());
}
