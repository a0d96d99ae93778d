// A memory snapshot that PyTorch recorded, as an input like any other.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import {
  SCREENS,
  accessibilityFaults,
  chooseDevice,
  chooseExample,
  dropFile,
  longestTask,
  openExample,
  openPage,
  opened,
  show,
  useBrowser,
  takePictures,
  unfoldSettings,
} from './browser.js';

const browser = useBrowser();

/** A recorded fixture, unpacked as PyTorch writes it. */
function recorded(name) {
  const packed = readFileSync(new URL(`../fixtures/snapshots/${name}.pickle.gz`, import.meta.url));
  return { name: `${name}.pickle`, bytes: gunzipSync(packed) };
}

const lead = (page) => page.locator('.headline-lead');
const rest = (page) => page.locator('.headline-rest');

test('a snapshot is answered: where it peaked, what was alive, what lay where, and what would help', async () => {
  const { page, errors, loaded, requests } = await openPage(browser);
  loaded();
  await longestTask(page);
  await dropFile(page, recorded('gpt2'));
  await rest(page).getByText(/^2\.38\sGiB were allocated and 2\.75\sGiB reserved at the peak, /).waitFor();
  await rest(page).getByText(/Fits on all \d+ GPUs\.$/).waitFor();
  assert.equal(await page.locator('.chip-text').textContent(), 'gpt2.pickle');

  // The timeline, by origin and by line of code; its phases come from the stacks.
  const tools = page.locator('.timeline-tools');
  await tools.getByRole('button', { name: 'by origin' }).waitFor();
  const layers = page.locator('.readout-name');
  assert.deepEqual(await layers.allTextContents(), [
    'moved', 'in the step', 'in backward', 'in forward', 'unknown', 'cached', 'reserved',
  ]);
  const phases = await page.locator('.timeline-phase').evaluateAll((all) => all.map((one) => one.title));
  assert.ok(phases.includes('forward of iteration 2') && phases.includes('optimizer step of iteration 2'), phases.join());
  await tools.getByRole('button', { name: 'by line of code' }).click();
  await page.locator('.readout-name', { hasText: 'modeling_gpt2:' }).first().waitFor();
  await tools.getByRole('button', { name: 'by origin' }).click();

  // What is alive, with its frames.
  await show(page, 'allocator');
  const row = page.locator('.alive-row').first();
  await row.locator('summary').click();
  assert.match(await row.locator('pre').textContent(), /\.py:\d+ \w+/);
  await page.locator('.alive').getByRole('tab', { name: 'by origin' }).click();
  await page.locator('.alive-group', { hasText: 'in the step' }).waitFor();
  await page.locator('.alive').getByRole('tab', { name: 'by tensor' }).click();

  // Where it lies, and what of it is not used.
  const unused = page.locator('.segments-unused');
  assert.match(
    await unused.textContent(),
    /^[\d.]+\sMiB is reserved and not allocated: [\d.]+\sMiB in \d+ holes .+\. A tensor of more than [\d.]+\sMiB needs new memory\.$/,
  );

  // Other settings of the allocator.
  const whatIfs = page.locator('.what-ifs');
  await whatIfs.getByText(/^With expandable_segments:True this run would have reserved [\d.]+\sMiB less\.$/).waitFor();
  assert.match(await whatIfs.locator('tbody tr').first().textContent(), /^default settings2\.75\sGiBas recorded$/);

  // What there is no model for is not there.
  for (const gone of ['#tab-peak', '#tab-suggestions', '#tab-growth', '.autopsy', '.helps', '.trend', '#optimizer', '#precision', '.gpu-batch']) {
    assert.equal(await page.locator(gone).filter({ visible: true }).count(), 0, gone);
  }
  const fetched = requests.map((address) => address.split('/').at(-1));
  assert.equal(fetched.length, 2, fetched.join());
  assert.match(fetched[0], /^highwater-recorded-\w+\.wasm$/, 'what reads it');
  assert.match(fetched[1], /^highwater-sections-\w+\.wasm$/, 'what shows a moment of it, and nothing else');
  assert.ok((await longestTask(page)).share < 0.2, 'the page stays alive');

  await show(page, 'timeline');
  await page.evaluate(() => globalThis.scrollTo(0, 0));
  await takePictures(page, 'recorded');
  await show(page, 'allocator');
  for (const [part, name] of [['.at-cursor', 'alive'], ['.what-ifs', 'what-ifs']]) {
    await page.locator(part).evaluate((panel) => panel.scrollIntoView());
    await takePictures(page, `recorded-${name}`);
  }
  assert.deepEqual(await accessibilityFaults(page), []);
  assert.deepEqual(errors, []);
  await page.close();
});

test('any moment can be looked at, another card chosen, and settings of the allocator tried', async () => {
  const { page, errors } = await openPage(browser);
  await dropFile(page, recorded('resnet18'));
  await rest(page).getByText(/^259\sMiB were allocated/).waitFor();
  await page.getByRole('slider', { name: /Memory over time/ }).focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('Enter');
  await show(page, 'allocator');
  await page.locator('#alive-title').getByText('Alive at this moment').waitFor();
  await show(page, 'timeline');
  await page.getByRole('slider', { name: /Memory over time/ }).press('Escape');

  await chooseDevice(page, 't4');
  await lead(page).getByText(/ fits on a T4: it needs /).waitFor();
  await unfoldSettings(page);
  await page.getByLabel('allocator settings', { exact: true }).fill('max_split_size_mb:64');
  await page.keyboard.press('Tab');
  await show(page, 'allocator');
  await page.locator('.what-ifs code', { hasText: 'max_split_size_mb:64' }).waitFor();

  await page.locator('summary[aria-label="Save the answer"]').click();
  const forms = page.locator('.menu-item').filter({ visible: true });
  assert.deepEqual(
    (await forms.allTextContents()).map((text) => text.slice(0, 7)),
    ['Picture', 'Drawing', 'GPUs (C'],
  );
  assert.deepEqual(errors, []);
  await page.close();
});

test('a history that forgot its beginning says so', async () => {
  const { page } = await openPage(browser);
  await dropFile(page, recorded('resnet18_ring'));
  await page.getByText('so a higher peak may lie before it').waitFor();
  await show(page, 'assumptions');
  await page.locator('.rests-on').getByText(/were there before the first entry/).waitFor();
  await show(page, 'allocator');
  await page.locator('.alive-life', { hasText: 'allocated before' }).first().waitFor();
  await page.close();
});

test('a broken or hostile pickle is refused, and what was there stays', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50');
  const before = await lead(page).textContent();
  const broken = recorded('resnet18');
  await dropFile(page, { name: 'cut.pickle', bytes: broken.bytes.subarray(0, 20_000) });
  const notice = page.locator('.notice');
  await notice.getByText('Could not open cut.pickle').waitFor();
  await notice.getByText(/The file ends at byte 20,?000, in the middle of the pickle.*resnet50\.onnx is still here/).waitFor();
  await dropFile(page, { name: 'evil.pickle', bytes: Buffer.from('\x80\x04cos\nsystem\n', 'latin1') });
  await notice.getByText(/the opcode GLOBAL asks to import or run something/i).waitFor();
  assert.match(await lead(page).textContent(), new RegExp(before.slice(0, 20)));

  // A recording stays as well, and can still be looked at.
  await dropFile(page, broken);
  await rest(page).getByText(/ were allocated /).waitFor();
  await dropFile(page, { name: 'evil.pickle', bytes: Buffer.from('\x80\x04cos\nsystem\n', 'latin1') });
  await notice.getByText(/resnet18\.pickle is still here/).waitFor();
  await show(page, 'allocator');
  await page.locator('.alive-life button').first().click();
  await page.locator('#alive-title').getByText('Alive at this moment').waitFor();
  assert.deepEqual(errors, []);
  await page.close();
});

test('a prediction is kept, and the recording is drawn beside it', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50', 'compare');
  const panel = page.locator('.comparison');
  await panel.getByRole('button', { name: 'Keep this answer' }).click();
  await panel.getByText('Nothing differs yet').waitFor();
  await dropFile(page, recorded('resnet18_expandable'));
  await opened(page, 'resnet18_expandable.pickle');
  await show(page, 'compare');
  await panel.getByText('Now: resnet18_expandable.pickle').waitFor();
  // The phases come with the answer's details, a moment after its name and its peaks.
  await panel.locator('tbody tr', { hasText: /^The highest moment of each phase/ }).waitFor();
  const rows = await panel.locator('tbody tr').evaluateAll((all) => all.map((row) => row.cells[0].textContent));
  assert.ok(rows.some((row) => row.startsWith('The highest moment of each phase')), rows.join());
  assert.ok(rows.includes('backward of iteration 2: mostly in forward'), rows.join());
  assert.ok(!rows.includes('activations') && !rows.includes('in forward'), rows.join());
  await takePictures(page, 'recorded-compared');
  await page.setViewportSize(SCREENS.desktop);
  await page.emulateMedia({ colorScheme: 'light' });
  await show(page, 'timeline');
  const accents = await page.locator('.timeline canvas').first().evaluate((canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let at = 0; at < data.length; at += 4) {
      count += Number(data[at] === 0x3a && data[at + 1] === 0x49 && data[at + 2] === 0xc9);
    }
    return count;
  });
  assert.ok(accents > 200, 'the prediction is a line on the timeline');
  assert.deepEqual(await accessibilityFaults(page), []);

  // Back to a model: everything of a model is there again.
  await chooseExample(page, 'GPT-2');
  await lead(page).getByText(/ needs /).waitFor();
  await opened(page, 'distilgpt2.onnx');
  await show(page, 'peak');
  await page.locator('.autopsy').waitFor();
  assert.ok(await page.locator('#optimizer').isVisible());
  await show(page, 'timeline');
  await page.locator('.timeline-tools').getByRole('button', { name: 'by category' }).waitFor();
  assert.deepEqual(errors, []);
  await page.close();
});
