import { chromium } from 'playwright-core';
import { serveDist } from './server.js';
import axe from 'axe-core';
const s = await serveDist();
const b = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
const out = '/tmp/site-shots/';
const pages = process.argv.slice(2).length ? process.argv.slice(2) : ['index','inputs','scoreboard','results/accuracy','lessons/second-step'];
for (const [w,h,th] of [[1440,900,'light'],[1440,900,'dark'],[390,844,'light'],[320,700,'light']]) {
  const c = await b.newContext({ viewport: { width: w, height: h }, colorScheme: th, reducedMotion: 'reduce' });
  for (const p of pages) {
    const page = await c.newPage();
    page.on('console', (m) => m.type() === 'error' && console.log(p, m.text()));
    page.on('pageerror', (e) => console.log(p, String(e)));
    await page.goto(s.address + 'docs/' + p + '.html');
    await page.waitForTimeout(200);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (over) console.log(p, w, 'sideways', over);
    await page.screenshot({ path: `${out}${p.replace('/', '-')}-${w}-${th}.png` });
    await page.evaluate(axe.source);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    for (const v of violations) console.log(p, w, th, v.id, v.nodes.map((n) => n.target.join(' ')).slice(0, 4).join(' | '));
    if (p === 'index') { await page.fill('#search', 'checkpointing'); await page.locator('#found li').first().waitFor(); await page.screenshot({ path: `${out}search-${w}-${th}.png` }); }
    await page.close();
  }
}
await b.close(); await s.close();
