// What the reader sees first, on every screen: the empty page and its example, the field that opens things, the
// GPUs, and that no text runs out of its box.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import {
  OPENED,
  SCREENS,
  takePictures,
  accessibilityFaults,
  changesPeak,
  chooseDevice,
  chooseEntry,
  chooseExample,
  deviceField,
  dropFile,
  openExample,
  openPage,
  opened,
  overflowing,
  peakBytes,
  show,
  sideways,
  useBrowser,
} from './browser.js';

const ARTIFACTS = fileURLToPath(new URL('./artifacts/', import.meta.url));
const SPEC = 'input: [N, 64]\ndims: {N: 32}\nlayers:\n  - linear: 128\n';

const browser = useBrowser();

const field = (page) => page.getByRole('combobox', { name: 'Open a model' });
const titles = (page) => page.locator('.open-entry-title').allTextContents();

test('the empty page answers for an example by itself, and makes no entry and no address of it', async () => {
  const { page, errors } = await openPage(browser);
  await page.getByText('For example: ').waitFor();
  const sentence = () => page.locator('.sample .headline-lead').textContent();
  const first = await sentence();
  assert.match(first, /at batch \d+ fits on an A100 80 GB: it needs [\d.]+ of [\d.]+\sGiB\./);
  const entries = await page.evaluate(() => history.length);
  const slider = page.getByRole('slider', { name: 'batch (slider)' });
  const before = await peakBytes(page);
  assert.ok((await changesPeak(page, () => slider.press('ArrowRight'))) > before);
  await page.locator('.sample .headline-lead').getByText(/ at batch 48 /).waitFor();
  assert.equal(new URL(page.url()).hash, '');
  assert.equal(await page.evaluate(() => localStorage.getItem('highwater-recent')), null);
  assert.equal(await page.locator('.chip').count(), 0);
  await page.getByRole('button', { name: 'See the whole answer' }).click();
  await opened(page, 'resnet50.onnx');
  // The first address is that of what was opened now, in the entry that the visit began with.
  await page.waitForURL(/#v1\./);
  assert.equal(await page.evaluate(() => history.length), entries);
  assert.notEqual(await page.locator('.headline-lead').textContent(), first, 'with the batch that was chosen');
  assert.deepEqual(errors, []);
  await page.close();
});

test('a model opens by its name, and an unknown name shows the nearest', async () => {
  const { page, errors } = await openPage(browser);
  await field(page).fill('llama 3.1 8b');
  await page.getByRole('option', { name: 'Llama 3.1 8B meta-llama' }).click();
  await opened(page, 'Llama 3.1 8B');
  assert.match(await page.locator('.headline-lead').textContent(), /^Llama 3\.1 8B at batch 1 /);
  assert.equal(await page.getByLabel('precision').inputValue(), 'bf16');
  await field(page).fill('lama-9');
  await field(page).press('Enter');
  await page.getByText('the nearest names are llama-').first().waitFor();
  assert.deepEqual(errors, []);
  await page.close();
});

test('a popular run answers with one click, and its method is one of three', async () => {
  const { page, errors } = await openPage(browser);
  await page.getByRole('button', { name: 'Llama 3.1 8B QLoRA, RTX 4090' }).click();
  await opened(page, 'Llama 3.1 8B');
  const lead = page.locator(`${OPENED} .headline-lead`);
  const run = /^QLoRA of Llama 3\.1 8B at batch 1 × 2,048 tokens (likely )?fits on a GeForce RTX 4090/;
  await lead.getByText(run).waitFor();
  const method = (name) => page.getByRole('radio', { name, exact: true });
  assert.ok(await method('QLoRA').isChecked());
  assert.equal(await page.getByLabel('quantised weights').inputValue(), 'nf4');
  for (const [name, size] of Object.entries(SCREENS)) {
    await page.setViewportSize(size);
    assert.deepEqual(await accessibilityFaults(page), [], name);
    assert.equal(await sideways(page), 0, `${name} scrolls sideways`);
  }
  await takePictures(page, 'method');
  await page.setViewportSize(SCREENS.desktop);
  await method('LoRA').check();
  await lead.getByText(/LoRA of Llama 3\.1 8B/).waitFor();
  await page.getByLabel('LoRA adapters').fill('16');
  await page.getByLabel('LoRA adapters').press('Tab');
  await page.locator('.hint-wrong').getByText('is a number').waitFor();
  await method('Full').check();
  await lead.getByText(/^Does not fit on a GeForce RTX 4090: Llama 3\.1 8B/).waitFor();
  assert.ok(await page.getByLabel('LoRA adapters').isHidden());
  assert.deepEqual(errors, []);
  await page.close();
});

test('an address of the Hub opens what it names, and a name without a version the newest', async () => {
  const { page, errors } = await openPage(browser);
  await field(page).fill('https://huggingface.co/meta-llama/Llama-3.1-8B/tree/main');
  await page.getByRole('option', { name: 'Llama 3.1 8B meta-llama' }).waitFor();
  await field(page).press('Enter');
  await opened(page, 'Llama 3.1 8B');
  await field(page).fill('llama');
  // Of the catalogue's names the newest comes first; what an earlier test opened may stand above them.
  const listed = page.getByRole('option').filter({ hasText: 'meta-llama' });
  await listed.first().filter({ hasText: 'Llama 3.3' }).waitFor();
  await field(page).fill('vit_b_16');
  assert.deepEqual(await titles(page), ['ViT-B/16']);
  assert.deepEqual(errors, []);
  await page.close();
});

test('the field filters, says what it does not know, and speaks to the keyboard', async () => {
  const { page, errors } = await openPage(browser);
  await field(page).click();
  assert.deepEqual(await titles(page), ['ResNet-50', 'ViT-B/16', 'DistilGPT-2', 'Write a model']);
  await field(page).fill('Llama-3.1-8B');
  await page.getByRole('option', { name: 'Llama 3.1 8B meta-llama' }).waitFor();
  await field(page).fill('Llama-9.9-8B');
  assert.deepEqual(await titles(page), ['“Llama-9.9-8B” is not in the catalogue']);
  await field(page).fill('distilgpt');
  assert.deepEqual(await titles(page), ['DistilGPT-2', 'DistilGPT2']);
  await field(page).press('Escape');
  assert.ok(await page.locator('.open-list').isHidden());
  await field(page).fill('');
  await field(page).press('ArrowDown');
  await field(page).press('ArrowDown');
  await field(page).press('ArrowDown');
  const active = page.locator('.open-entry[aria-selected="true"]');
  assert.match(await active.textContent(), /DistilGPT-2/);
  assert.equal(await field(page).getAttribute('aria-activedescendant'), await active.getAttribute('id'));
  assert.equal(await field(page).getAttribute('aria-expanded'), 'true');
  assert.deepEqual(await accessibilityFaults(page), []);
  await field(page).press('ArrowUp');
  await field(page).press('Enter');
  await opened(page, 'vit_b_16.onnx');
  assert.deepEqual(errors, []);
  await page.close();
});

test('a paste of several lines into the field is a model; one line is a name', async () => {
  const { page, errors } = await openPage(browser);
  await browser.context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const pasteInto = async (text) => {
    await page.evaluate((text) => navigator.clipboard.writeText(text), text);
    await field(page).click();
    await page.keyboard.press('Control+V');
  };
  await pasteInto('resnet50');
  assert.equal(await field(page).inputValue(), 'resnet50');
  await page.getByRole('option', { name: 'ResNet-50 torchvision' }).waitFor();
  await field(page).fill('');
  await pasteInto(SPEC);
  await opened(page, 'pasted text');
  assert.equal(await page.getByRole('textbox', { name: 'Model as text' }).inputValue(), SPEC);
  assert.deepEqual(errors, []);
  await page.close();
});

test('a GPU of the strip makes the answer about it, and the own GPU is remembered', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50');
  const lead = page.locator(`${OPENED} .headline-lead`);
  await page.locator('#card-v100-16gb').click();
  await lead.getByText(/ on an? .*V100/).waitFor();
  assert.equal(await page.locator('#card-v100-16gb').getAttribute('aria-pressed'), 'true');
  assert.match(await page.locator('.need-lead').textContent(), /^V100.*: [\d.]+ of [\d.]+\sGiB$/);
  assert.equal(await deviceField(page).inputValue(), 'v100-16gb');
  await page.getByLabel('My GPU').selectOption('rtx-2080-ti');
  await lead.getByText(/ on a GeForce RTX 2080 Ti/).waitFor();
  assert.equal(await page.locator('#card-mine').getAttribute('aria-pressed'), 'true');
  await page.locator('#card-t4').click();
  await lead.getByText(/ on a T4/).waitFor();
  await page.goto(browser.address);
  await page.reload();
  await page.locator('.sample .headline-lead').waitFor();
  assert.equal(await page.getByLabel('My GPU').inputValue(), 'rtx-2080-ti');
  await page.locator('.gpu-card-mine .gpu-card-verdict', { hasText: /\S/ }).waitFor();
  await page.locator('#card-mine').click();
  await page.locator('.sample .headline-lead').getByText(/ on a GeForce RTX 2080 Ti/).waitFor();
  assert.deepEqual(errors, []);
  await page.close();
});

test('the answer is within the first screen, and the page is short', async () => {
  for (const name of ['ResNet-50', 'ViT-B/16', 'DistilGPT-2']) {
    const { page } = await openExample(browser, name);
    await page.locator('.gpu-card-h100-80gb .gpu-card-batch', { hasText: /\d/ }).waitFor();
    for (const gpu of ['t4', 'v100-16gb', 'a100-80gb', 'h100-80gb']) {
      const { y, height } = await page.locator(`.gpu-card-${gpu}`).boundingBox();
      assert.ok(y + height <= SCREENS.desktop.height, `${name}: ${gpu} ends at ${y + height} px`);
    }
    const long = await page.evaluate(() => document.documentElement.scrollHeight);
    assert.ok(long <= 2.5 * SCREENS.desktop.height, `${name}: ${long} px long`);
    await page.close();
  }
});

/** What the page can be like; each begins where the one before ended, so that the page is loaded seldom. */
const STATES = {
  empty: async () => {},
  loaded: async (page) => {
    await chooseExample(page, 'DistilGPT-2');
    await opened(page, 'distilgpt2.onnx');
  },
  'does not fit': async (page) => {
    await chooseDevice(page, 't4');
    await page.locator('.dimension input[type=number]').first().fill('512');
    await page.locator('.headline-sign.verdict-fails').waitFor();
    await page.locator('.more-settings > summary').click();
  },
  refused: async (page) => {
    await dropFile(page, { name: `${'holiday-'.repeat(12)}.png`, bytes: Buffer.from('\x89PNG\r\n\x1a\n', 'latin1') });
    await page.locator('.notice-error').waitFor();
  },
  lesson: async (page) => {
    await page.locator('#dismiss').click();
    await page.locator('.menu-quiet').last().locator('summary').click();
    await page.locator('.menu-quiet').last().locator('.menu-item').nth(2).click();
    await page.locator('.lesson-ask').waitFor();
  },
  large: async (page) => {
    await page.locator('#lesson-end').click();
    await page.locator('.header-present').click();
    await page.locator('.lesson').waitFor({ state: 'detached' });
  },
};
const WIDTHS = [1440, 1024, 834, 390];

for (const language of ['en', 'zh-Hans']) {
  test(`no text runs out of its box, and everybody can read it: ${language}`, async () => {
    const { page, errors } = await openPage(browser);
    await page.locator('.header-language').selectOption(language);
    await page.locator(`html[lang="${language}"]`).waitFor();
    await page.locator('.sample .headline-lead').waitFor();
    const faults = [];
    let light = true;
    for (const [state, reach] of Object.entries(STATES)) {
      await page.setViewportSize(SCREENS.desktop);
      await reach(page);
      // Marks and cards come with the GPUs' verdicts.
      await page.waitForFunction(() =>
        [...document.querySelectorAll('.gpu-card-batch')].slice(0, 5).every((cell) => cell.textContent !== '…'),
      );
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: width > 1000 ? 900 : 1000 });
        await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
        const at = `${language}, ${state}, ${width} px`;
        faults.push(...(await overflowing(page)).map((fault) => `${at}: ${fault}`));
        const wide = await sideways(page);
        if (wide > 0) faults.push(`${at}: scrolls sideways by ${wide} px`);
        // Every state in both themes and every width in one of them; Chinese has the same elements.
        if (language === 'en' && (width === 1440 || width === 390)) {
          for (const theme of width === 1440 ? ['light', 'dark'] : [light ? 'light' : 'dark']) {
            await page.emulateMedia({ colorScheme: theme });
            faults.push(...(await accessibilityFaults(page)).map((fault) => `${at}, ${theme}: ${fault}`));
          }
          light = !light;
        }
        if (width !== 834) {
          await page.emulateMedia({ colorScheme: 'light' });
          const name = `look-${language}-${state.replaceAll(' ', '-')}-${width}.png`;
          await page.screenshot({ path: join(ARTIFACTS, name) });
        }
      }
    }
    assert.deepEqual(faults, []);
    assert.deepEqual(errors, []);
    await page.close();
  });
}

test('the sections of an answer keep their texts in their boxes', async () => {
  const { page } = await openExample(browser, 'DistilGPT-2');
  const faults = [];
  for (const [section, content] of Object.entries({
    peak: '.autopsy-groups li',
    suggestions: '.lever',
    gpus: '.gpu-table .gpu-name',
    growth: '.trend-size',
    allocator: '.segment-pool',
    compare: '.comparison button',
    assumptions: '.rests-on-rows li',
  })) {
    await page.setViewportSize(SCREENS.desktop);
    await show(page, section);
    await page.locator(`#section-${section} ${content}`).first().waitFor();
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 });
      faults.push(...(await overflowing(page)).map((fault) => `${section}, ${width} px: ${fault}`));
    }
  }
  assert.deepEqual(faults, []);
  await page.close();
});

test('a browser that prefers large type from the start keeps texts in their boxes', async () => {
  const { page } = await openPage(browser, '?present=1');
  await chooseEntry(page, 'ViT-B/16');
  await opened(page);
  const faults = [];
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    faults.push(...(await overflowing(page)).map((fault) => `${width} px: ${fault}`));
    assert.equal(await sideways(page), 0, `${width} px scrolls sideways`);
  }
  assert.deepEqual(faults, []);
  await page.close();
});

test('the text size of the browser is that of the page, and nothing runs out of its box', async () => {
  const { page } = await openExample(browser, 'ResNet-50');
  const size = () => page.locator('h1').evaluate((h1) => Number.parseFloat(getComputedStyle(h1).fontSize));
  const before = await size();
  const browserSays = await browser.context.newCDPSession(page);
  await browserSays.send('Page.setFontSizes', { fontSizes: { standard: 32, fixed: 26 } });
  await page.setViewportSize({ width: 1600, height: 900 });
  await page.waitForFunction(() => getComputedStyle(document.documentElement).fontSize === '32px');
  const faults = [];
  for (const width of [1600, 1280]) {
    await page.setViewportSize({ width, height: 900 });
    // As narrow as it is for the letters, it has the sizes of a narrow window.
    assert.ok((await size()) >= 1.25 * before, `${await size()} after ${before} px`);
    faults.push(...(await overflowing(page)).map((fault) => `${width} px: ${fault}`));
    assert.equal(await sideways(page), 0, `${width} px scrolls sideways`);
    await page.screenshot({ path: join(ARTIFACTS, `look-twice-${width}.png`) });
  }
  assert.deepEqual(faults, []);
  await page.close();
});

test('on a phone the chart begins with the second screen, and the bar has one row of buttons', async () => {
  const { page } = await openExample(browser, 'ResNet-50');
  await page.locator('.gpu-card-h100-80gb .gpu-card-batch', { hasText: /\d/ }).waitFor();
  for (const width of [390, 360]) {
    await page.setViewportSize({ width, height: 844 });
    const tops = [];
    for (const button of ['.header-theme', '.header-language', 'summary[title="Lessons"]', 'summary[title="Share"]']) {
      const box = await page.locator(`.header ${button}`).boundingBox();
      assert.ok(box.x >= 0 && box.x + box.width <= width, `${width} px: ${button}`);
      tops.push(box.y + box.height / 2);
    }
    assert.ok(Math.max(...tops) - Math.min(...tops) < 8, `${width} px: ${tops}`);
    assert.equal(await sideways(page), 0);
    await page.screenshot({ path: join(ARTIFACTS, `look-phone-${width}.png`), fullPage: true });
  }
  await page.setViewportSize(SCREENS.phone);
  const { y } = await page.locator('.timeline').boundingBox();
  assert.ok(y <= SCREENS.phone.height, `the chart begins at ${y} px`);
  await page.close();
});
