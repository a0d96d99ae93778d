// Runs the browser tests on dist/: `npm test` in this folder, or `npm test -- share.test.js` for some of the files.
//
// Two files run at a time. A test that fails runs once more, by itself. Where it passes then, the run passes, and
// ends with the list of such tests: each is a defect of the test or of the page.

import { readdirSync } from 'node:fs';
import { basename } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { fileURLToPath } from 'node:url';

const AT_ONCE = Number(process.env.AT_ONCE ?? 2);

const folder = fileURLToPath(new URL('.', import.meta.url));
const named = process.argv.slice(2);
const files = readdirSync(folder)
  .filter((name) => name.endsWith('.test.js') && (named.length === 0 || named.includes(name)))
  .map((name) => folder + name);

/** Runs files, or those of their tests that a pattern names, and gives the tests that failed and how many ran. */
async function attempt(options) {
  const failed = [];
  let passed = 0;
  const events = run(options);
  events.on('test:pass', ({ details, nesting }) => {
    passed += Number(nesting === 0 && details.type !== 'suite');
  });
  events.on('test:fail', ({ name, file, details }) => {
    // That a file failed because its tests did is no news.
    if (details.error?.failureType !== 'subtestsFailed') failed.push({ name, file });
  });
  const report = events.compose(spec);
  for await (const text of report) process.stdout.write(text);
  return { failed, passed };
}

const only = (name) => new RegExp(`^${name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`);

const begun = Date.now();
const first = await attempt({ files, concurrency: AT_ONCE });
const flaky = [];
const broken = [];
for (const { name, file } of first.failed) {
  console.log(`\nonce more: ${name}`);
  const again = await attempt({ files: [file], concurrency: 1, testNamePatterns: [only(name)] });
  const isSound = again.failed.length === 0 && again.passed > 0;
  (isSound ? flaky : broken).push(`${basename(file)}: ${name}`);
}
const list = (title, tests) => tests.length > 0 && console.log(`${title}:\n  ${tests.join('\n  ')}`);
console.log();
list('flaky, failed once and passed by itself', flaky);
list('failed', broken);
const seconds = Math.round((Date.now() - begun) / 1000);
console.log(`browser tests after ${seconds} s; ${flaky.length} flaky`);
console.log(`${first.passed + flaky.length} passed, ${broken.length} failed`);
process.exitCode = broken.length > 0 || first.passed === 0 ? 1 : 0;
