// A trace of torch.profiler from a CPU, as an input like any other.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  SCREENS,
  accessibilityFaults,
  chooseDevice,
  dropFile,
  longestTask,
  openExample,
  openPage,
  opened,
  show,
  useBrowser,
  takePictures,
} from './browser.js';

const browser = useBrowser();

const TRACE = 'profiles/resnet18_8_sgd_128.json.gz';
const lead = (page) => page.locator('.headline-lead');
const rest = (page) => page.locator('.headline-rest');

test('a trace is answered by our rules or the published ones, on any card', async () => {
  const { page, errors, loaded, requests } = await openPage(browser);
  loaded();
  await longestTask(page);
  await dropFile(page, TRACE);
  await rest(page).getByText(/^190\sMiB are allocated at the peak, .+ Fits on all \d+ GPUs\.$/).waitFor();
  await page.locator('.facts, dl').getByText('profiler trace', { exact: true }).waitFor();

  // Both sets of rules, of which one is shown.
  const rules = page.locator('.readings');
  const ours = rules.getByRole('radio', { name: "Highwater's rules" });
  const published = rules.getByRole('radio', { name: "xMem's rules" });
  assert.ok(await ours.isChecked());
  await published.check();
  await rest(page).getByText(/^185\sMiB are allocated at the peak, /).waitFor();
  assert.ok(await published.isChecked());
  await ours.check();
  await rest(page).getByText(/^190\sMiB are allocated at the peak, /).waitFor();

  // Categories are real ones, settings of the allocator are tried, and another card is another answer.
  await page.locator('.timeline-tools').getByRole('button', { name: 'by category' }).waitFor();
  await show(page, 'allocator');
  await page.locator('.what-ifs').getByText(/this run would have reserved/).waitFor();
  await chooseDevice(page, 't4');
  await lead(page).getByText(/ fits on a T4: it needs /).waitFor();
  await show(page, 'timeline');
  await page.getByRole('slider', { name: /Memory over time/ }).focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('Enter');
  await show(page, 'allocator');
  await page.locator('#alive-title').getByText('Alive at this moment').waitFor();
  await show(page, 'timeline');
  await page.getByRole('slider', { name: /Memory over time/ }).press('Escape');
  for (const gone of ['#tab-peak', '#tab-suggestions', '#tab-growth', '.autopsy', '.helps', '.trend', '#optimizer', '#precision', '.gpu-batch']) {
    assert.equal(await page.locator(gone).filter({ visible: true }).count(), 0, gone);
  }
  const fetched = requests.map((address) => address.split('/').at(-1));
  assert.equal(fetched.length, 2, fetched.join());
  assert.match(fetched[0], /^highwater-profiled-\w+\.wasm$/, 'what reads it');
  assert.match(fetched[1], /^highwater-sections-\w+\.wasm$/, 'what shows a moment of it, and nothing else');
  assert.ok((await longestTask(page)).share < 0.2, 'the page stays alive');

  await page.evaluate(() => globalThis.scrollTo(0, 0));
  await takePictures(page, 'profiled');
  await show(page, 'timeline');
  await rules.evaluate((panel) => panel.scrollIntoView());
  await takePictures(page, 'profiled-rules');
  assert.deepEqual(await accessibilityFaults(page), []);
  assert.deepEqual(errors, []);
  await page.close();
});

test('a prediction from the graph is kept beside the trace', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50', 'compare');
  const panel = page.locator('.comparison');
  await panel.getByRole('button', { name: 'Keep this answer' }).click();
  await panel.getByText('Nothing differs yet').waitFor();
  await dropFile(page, TRACE);
  await opened(page, 'resnet18_8_sgd_128.json.gz');
  await show(page, 'compare');
  await panel.getByText('Now: resnet18_8_sgd_128.json.gz').waitFor();
  await panel.locator('tbody tr', { hasText: 'activations' }).first().waitFor();
  const rows = await panel.locator('tbody tr').evaluateAll((all) => all.map((row) => row.cells[0].textContent));
  assert.ok(rows.includes('activations'), rows.join());
  assert.ok(rows.some((row) => /^backward of iteration 2: mostly /.test(row)), rows.join());
  await panel.evaluate((panel) => panel.scrollIntoView());
  await takePictures(page, 'profiled-compared');
  await page.setViewportSize(SCREENS.desktop);
  assert.deepEqual(errors, []);
  await page.close();
});

test('what is no trace is refused, and what was there stays', async () => {
  const { page, errors } = await openPage(browser);
  await dropFile(page, TRACE);
  await rest(page).getByText(/^190\sMiB are/).waitFor();
  const notice = page.locator('.notice');
  const cut = Buffer.from('{"schemaVersion": 1, "traceEvents": [{"ts": 1}, {');
  await dropFile(page, { name: 'cut.json', bytes: cut });
  await notice.getByText(/The trace ends in the middle, in line 1.*resnet18_8_sgd_128\.json\.gz is still here/).waitFor();
  // What it says can still be asked for.
  await chooseDevice(page, 't4');
  await lead(page).getByText(/ fits on a T4: it needs /).waitFor();
  assert.deepEqual(errors, []);
  await page.close();
});

test('a large file says how far it is, and can be left off', async () => {
  const { page, errors } = await openExample(browser, 'ResNet-50');
  const large = {
    name: 'large.json',
    bytes: Buffer.from('{"schemaVersion": 1, "traceEvents": [{"ts": 1}'),
    repeated: [',{"ph":"X","cat":"other","name":"something","ts":1.5,"dur":2}'.repeat(20_000), 150],
  };
  await dropFile(page, large);
  const chip = page.locator('.chip-busy');
  await chip.getByText('Opening large.json…').waitFor();
  await chip.getByText(/^\d+\s%$/).waitFor();
  assert.ok((await longestTask(page)).share < 0.2, 'the page stays alive');
  await takePictures(page, 'opening');
  await page.setViewportSize(SCREENS.desktop);
  await chip.getByRole('button', { name: 'Cancel opening' }).click();
  await opened(page, 'resnet50.onnx');
  await chooseDevice(page, 't4');
  await rest(page).getByText(/Largest batch on a T4: /).waitFor();
  assert.equal(await page.locator('.notice').count(), 0);
  assert.deepEqual(errors, []);
  await page.close();
});
