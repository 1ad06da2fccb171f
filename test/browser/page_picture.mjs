// Makes docs/pictures/page.png: the page of `holdfast serve` with real locks and tasks on a Redis of its own.
//
//   node test/browser/page_picture.mjs HOLDFAST FILE
import {execFileSync, spawn, spawnSync} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {createServer} from 'node:net';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {Browser} from './browser.mjs';

const [holdfast, file] = process.argv.slice(2);
const directory = mkdtempSync(join(tmpdir(), 'holdfast-picture-'));
const port = await new Promise((resolve) => {
  const server = createServer().listen(0, '127.0.0.1', () => {
    const {port} = server.address();
    server.close(() => resolve(port));
  });
});
const env = {...process.env, HOLDFAST_URL: `redis://127.0.0.1:${port}`};
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const children = [];
const start = (program, ...args) => {
  const child = spawn(program, args, {stdio: ['ignore', 'ignore', 'pipe'], env});
  child.log = '';
  child.stderr.setEncoding('utf8').on('data', (text) => { child.log += text; });
  children.push(child);
  return child;
};
const stop = (child) => new Promise((resolve) => {
  if (child.exitCode !== null || child.signalCode !== null) return resolve();
  child.once('exit', resolve);
  child.kill();
});
const run = (...args) => execFileSync(holdfast, args, {env, encoding: 'utf8'}).trim();
const redis = (...args) => spawnSync('redis-cli', ['-p', `${port}`, ...args], {encoding: 'utf8'}).stdout.trim();

let browser;
try {
  start('redis-server', '--port', `${port}`, '--bind', '127.0.0.1', '--dir', directory, '--save', '', '--appendonly', 'yes');
  while (redis('PING') !== 'PONG') await pause(50);

  // Who holds what, and who waits: counters as after some weeks of use.
  const hold = (holder, key) => start(holdfast, '--holder', holder, 'run', key, '--', 'sleep', '600');
  for (const [key, fence, holder, waiters] of [
    ['leader:scheduler', 17, 'scheduler@web-2:1 scheduler', 2],
    ['nightly-report', 412, 'reports@batch-1:8812 nightly-report', 0],
    ['orders:42', 90417, 'orders@web-1:2291 orderd', 1],
    ['orders:57', 3318, 'orders@web-3:2305 orderd', 0],
    ['deploy', 1204, 'alice@laptop:51022 deploy.sh', 1],
    ['imports/customers', 66, 'imports@batch-2:771 importer', 0],
  ]) {
    redis('SET', `syncguard:fence:syncguard:${key}`, `${fence - 1}`);
    hold(holder, key);
    while (redis('EXISTS', `syncguard:${key}`) !== '1') await pause(50);
    for (let i = 0; i < waiters; ++i) hold(`orders@web-${i + 4}:2291 orderd`, key);
    await pause(300);
  }
  for (let frame = 1; frame <= 12; ++frame) run('task', 'add', 'render', '--variables', `{"frame":${frame}}`);
  start(holdfast, 'task', 'work', 'render', '-j', '3', '--', 'sleep', '600');
  await pause(1500);

  const tokenFile = join(directory, 'token');
  const server = start(holdfast, 'serve', '--listen', '127.0.0.1:0', '--token-file', tokenFile);
  let address;
  while (!(address = server.log.match(/http:\/\/127\.0\.0\.1:\d+\//)?.[0])) await pause(50);
  browser = new Browser('chromium');
  const page = await browser.newPage();
  await page.size(1160, 470);
  await page.send('Emulation.setScrollbarsHidden', {hidden: true});
  await page.open(address);
  const token = JSON.stringify(readFileSync(tokenFile, 'utf8').trim());
  await page.run(`document.getElementById('token').value = ${token}; document.getElementById('login').requestSubmit()`);
  await page.until(`document.getElementById('state-text')?.textContent.startsWith('live')`);
  await page.run(`location.hash = '#${process.argv[4] ?? 'locks'}'`);
  await page.until(`document.getElementById('view').textContent.includes('scheduler@web-2')`);
  await pause(1500);
  await page.picture(file);
} finally {
  await browser?.close();
  for (const child of children.reverse()) await stop(child);
  rmSync(directory, {recursive: true, force: true});
}
