// The page of `holdfast serve` in Chromium, with real locks and tasks on a real Redis.
//
//   node test/browser/serve_page.mjs HOLDFAST [DIRECTORY]
//
// DIRECTORY: pictures are kept there (light, dark, phone width). Exit 77 if Chromium or Redis is not installed.
import {execFileSync, spawn, spawnSync} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {createServer} from 'node:net';
import {createServer as createHttpServer, request} from 'node:http';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import assert from 'node:assert/strict';
import {Browser} from './browser.mjs';

const [holdfast, pictures] = process.argv.slice(2);
const find = (...names) => names.find((name) => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0);
const chromium = find('chromium', 'chromium-browser', 'google-chrome');
if (!chromium || !find('redis-server')) {
  console.error('skipped: chromium and redis-server are needed');
  process.exit(process.env.HOLDFAST_REQUIRE_ALL === '1' ? 1 : 77);
}

const freePort = () => new Promise((resolve) => {
  const server = createServer().listen(0, '127.0.0.1', () => {
    const {port} = server.address();
    server.close(() => resolve(port));
  });
});
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const directory = mkdtempSync(join(tmpdir(), 'holdfast-page-'));
const [redisPort, port] = [await freePort(), await freePort()];
const url = `redis://127.0.0.1:${redisPort}`;
const base = `http://127.0.0.1:${port}`;
const tokenFile = join(directory, 'token');
const children = [];
const start = (program, ...args) => {
  const child = spawn(program, args, {stdio: ['ignore', 'ignore', 'pipe'], env: {...process.env, HOLDFAST_URL: url}});
  child.log = '';
  child.stderr.setEncoding('utf8').on('data', (text) => { child.log += text; });
  children.push(child);
  return child;
};
const stop = async (child, signal = 'SIGTERM') => {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill(signal);
  await ended;
};
const startRedis = async () => {
  const redis = start('redis-server', '--port', `${redisPort}`, '--bind', '127.0.0.1', '--dir', directory, '--appendonly', 'yes', '--appendfsync', 'always', '--save', '');
  while (spawnSync('redis-cli', ['-p', `${redisPort}`, 'ping']).stdout.toString().trim() !== 'PONG') await pause(20);
  return redis;
};
const run = (...args) => execFileSync(holdfast, args, {env: {...process.env, HOLDFAST_URL: url}, encoding: 'utf8'}).trim();
const acquire = (key, holder = 'alice@web-3:812 deploy') => run('--json', '--holder', holder, 'lock', 'acquire', '-n', '--ttl', '10m', key);
const status = (path, headers = {}, method = 'GET') => new Promise((resolve, reject) => {
  request({host: '127.0.0.1', port, path, method, headers}, (answer) => {
    answer.resume();
    resolve(answer.statusCode);
  }).on('error', reject).end();
});
const text = (value) => JSON.stringify(value);
const has = (value) => `document.getElementById('view').textContent.includes(${text(value)})`;
const rows = (value) => `[...document.querySelectorAll('#view .row.body')].find((row) => row.textContent.includes(${text(value)}))`;
const go = (page, view) => page.run(`location.hash = '#${view}'`);
const fillReason = (page, reason) => page.run(
  `document.getElementById('reason').value = ${text(reason)}; document.querySelector('#dialog form').requestSubmit()`);

let redis = await startRedis();
// A problem for doctor.
for (const [name, value] of [['maxmemory', '1gb'], ['maxmemory-policy', 'allkeys-lru']]) {
  spawnSync('redis-cli', ['-p', `${redisPort}`, 'config', 'set', name, value]);
}
const server = start(holdfast, 'serve', '--listen', `127.0.0.1:${port}`, '--token-file', tokenFile, '--allow-actions', '--show-data');
while (!server.log.includes('listening')) await pause(20);
const token = readFileSync(tokenFile, 'utf8').trim();
const browser = new Browser(chromium);
const page = await browser.newPage();
const picture = (name) => (pictures ? page.picture(join(pictures, `${name}.png`)) : undefined);

try {
  // Refused: another host, another origin, no token, the token in the URL.
  const bearer = {Authorization: `Bearer ${token}`};
  assert.equal(await status('/api/locks', bearer), 200);
  assert.equal(await status('/api/locks'), 401);
  assert.equal(await status(`/api/locks?token=${token}`), 401);
  assert.equal(await status('/api/locks', {...bearer, Host: `evil.example:${port}`}), 421);
  assert.equal(await status('/api/locks', {...bearer, Origin: 'http://evil.example'}), 403);

  await page.size(1280, 800);
  await page.open(`${base}/`);
  await picture('login');
  await page.run(`document.getElementById('token').value = 'wrong'; document.getElementById('login').requestSubmit()`);
  await page.until(`document.getElementById('problem').textContent !== ''`);
  await page.run(`document.getElementById('token').value = ${text(token)}; document.getElementById('login').requestSubmit()`);
  await page.until(`document.getElementById('state-text')?.textContent.startsWith('live')`);
  assert.equal(await page.run('document.cookie'), '', 'scripts do not see the cookie');

  // A problem that doctor finds is seen without looking for it.
  await page.until(`!document.getElementById('mark-doctor').hidden && document.title === '(1) Holdfast: overview'`, 60000);
  assert.ok(await page.run(`document.querySelector('.attention .row').textContent.startsWith('problem')`));

  // A page of another port of this machine: browsers count it as the same site, and send it the cookie.
  const attacked = acquire('attacked');
  const evil = createHttpServer((_, answer) => answer.setHeader('Content-Type', 'text/html').end('<title>evil</title>'));
  await new Promise((resolve) => evil.listen(0, '127.0.0.1', resolve));
  const attacker = await browser.newPage();
  await attacker.open(`http://127.0.0.1:${evil.address().port}/`);
  const attempt = (options) => attacker.run(
    `fetch(${options}).then((answer) => answer.text().then((text) => 'read ' + text), () => 'refused')`);
  assert.equal(await attempt(`'${base}/api/locks', {credentials: 'include'}`), 'refused');
  const order = JSON.stringify({key: 'attacked', fence: JSON.parse(attacked).fence, reason: 'an attack'});
  await attempt(`'${base}/api/locks/break', {method: 'POST', credentials: 'include', mode: 'no-cors', body: ${text(order)}}`);
  await attempt(`'${base}/api/locks/break', {method: 'POST', credentials: 'include', headers: {'Content-Type': 'application/json'}, body: ${text(order)}}`);
  await attacker.run(`document.body.append(Object.assign(document.createElement('iframe'), {src: '${base}/'}))`);
  run('lock', 'show', 'attacked');
  assert.ok(!server.log.includes('an attack'));
  await attacker.close();
  evil.close();
  evil.closeAllConnections();

  // A grant appears within a second.
  await go(page, 'locks');
  const before = performance.now();
  acquire('orders:42');
  const took = performance.now() - before + await page.until(has('orders:42'));
  console.log(`a grant appeared ${Math.round(took)} ms after the command started`);
  assert.ok(await page.run(has('alice@web-3:812 deploy')));

  // Text of users stays text.
  const nasty = '<img src=x onerror=alert(1)><script>alert(2)</script>';
  acquire(`key ${nasty}`, `holder ${nasty} \u202e`);
  await page.until(has(`key ${nasty}`));
  assert.ok(await page.run(has('\\u202e')), 'a character that turns the text round is shown by its code');
  const task = run('task', 'create', '--owner', `owner ${nasty}`, '--method', `method ${nasty}`);
  run('task', 'set', '--owner', `owner ${nasty}`, task, `progress=${JSON.stringify(`progress ${nasty}`)}`);
  const other = run('task', 'create', '--owner', 'alice', '--method', 'reports/make');
  run('task', 'set', '--owner', 'alice', other, 'progress=40', 'customer="secret"');
  await go(page, 'tasks');
  await page.until(`${has(`owner ${nasty}`)} && ${has(`progress ${nasty}`)} && ${has('40 %')}`);
  await page.run(`${rows(`owner ${nasty}`)}.click()`);
  await page.until(`document.getElementById('dialog').textContent.includes('Variables')`);
  assert.equal(await page.run(`document.querySelectorAll('main img, main script, dialog img, dialog script').length`), 0);
  await page.run(`document.getElementById('dialog').close()`);

  for (let i = 1; i <= 12; ++i) acquire(`deploy:service-${i}`, `ci@build-${i}:${900 + i} make`);
  await go(page, 'overview');
  await page.until(has('deploy:service-12'));
  await picture('overview-light');
  await go(page, 'locks');
  await page.until(has('deploy:service-12'));
  await picture('locks-light');
  await page.size(1280, 800, {dark: true});
  await picture('locks-dark');
  await go(page, 'tasks');
  await page.until(has('reports/make'));
  await picture('tasks-dark');
  await page.size(390, 780, {mobile: true});
  await picture('tasks-phone');
  await go(page, 'locks');
  await page.until(has('orders:42'));
  await picture('locks-phone');
  assert.ok(await page.run('document.documentElement.scrollWidth <= 390'), 'nothing is wider than a phone');
  await page.size(1280, 800);

  // Queues: their counts, and the tasks of one with worker, place and attempt.
  for (let i = 0; i < 3; ++i) run('task', 'add', `queue ${nasty}`, '--method', `frame ${nasty}`);
  run('task', 'add', 'mail', '--delay', '1h');
  const worker = start(holdfast, '--holder', `worker ${nasty}`, 'task', 'work', `queue ${nasty}`, '--', 'sleep', '600');
  await go(page, 'queues');
  await page.until(`${has(`queue ${nasty}`)} && ${has('mail')}`);
  const counts = `[...${rows(`queue ${nasty}`)}.querySelectorAll('[data-label]')].map((one) => one.textContent).slice(0, 3).join()`;
  await page.until(`${counts} === '2,0,1'`);
  await picture('queues-light');
  await page.run(`${rows(`queue ${nasty}`)}.click()`);
  await page.until(`document.getElementById('dialog').textContent.includes(${text(`by worker ${nasty}`)})`);
  assert.ok(await page.run(`document.getElementById('dialog').textContent.includes('1 of 5 attempts')`));
  assert.equal(await page.run(`document.querySelectorAll('main img, main script, dialog img, dialog script').length`), 0);
  await picture('queue-light');
  await page.run(`document.getElementById('dialog').close()`);
  await page.size(390, 780, {mobile: true, dark: true});
  await picture('queues-phone');
  assert.ok(await page.run('document.documentElement.scrollWidth <= 390'), 'nothing is wider than a phone');
  await page.size(1280, 800);
  await stop(worker, 'SIGKILL');

  // A failed task and a paused queue are seen on the overview and in the browser's tab, and the task is listed.
  const marked = Number(await page.run(`document.title.match(/^\\((\\d+)\\)/)?.[1] ?? 0`));
  run('task', 'add', `broken ${nasty}`, '--attempts', '1', '--method', `method ${nasty}`);
  spawnSync(holdfast, ['task', 'work', `broken ${nasty}`, '--once', '--', 'sh', '-c', 'exit 3'], {env: {...process.env, HOLDFAST_URL: url}});
  run('queue', 'pause', 'mail');
  await page.until(`document.title.startsWith('(${marked + 2})')`);
  assert.equal(await page.run(`document.getElementById('mark-queues').textContent`), '2');
  await go(page, 'events');
  await page.until(`${has(`queue broken ${nasty}`)} && ${has('task failed')} && ${has('queue paused')} && ${has('queue mail')}`);
  await go(page, 'overview');
  await page.until(`document.querySelectorAll('.attention .row').length === ${marked + 2}`);
  const card = (label) => page.run(`[...document.querySelectorAll('.card')].find((one) => one.textContent.endsWith(${text(label)})).querySelector('.figure').textContent`);
  assert.equal(await card('Failed in queues'), '1');
  await picture('attention-light');
  await page.size(1280, 800, {dark: true});
  await picture('attention-dark');
  await page.size(390, 780, {mobile: true});
  await picture('attention-phone');
  assert.ok(await page.run('document.documentElement.scrollWidth <= 390'), 'nothing is wider than a phone');
  await page.size(1280, 800);
  await page.run(`[...document.querySelectorAll('.attention .row')].find((row) => row.textContent.includes('broken')).click()`);
  await page.until(`document.getElementById('dialog').textContent.includes('Failed tasks, the last first') && document.getElementById('dialog').textContent.includes('exited with 3')`);
  assert.equal(await page.run(`document.querySelectorAll('main img, main script, dialog img, dialog script').length`), 0);
  await picture('failed-light');
  await page.run(`document.getElementById('dialog').close()`);
  await go(page, 'tasks');
  await page.until(`document.getElementById('shown').textContent.includes('1 task failed, see Queues')`);
  await go(page, 'queues');
  await page.until(`${rows(`broken ${nasty}`)} !== undefined`);
  assert.equal(await page.run(`${rows(`broken ${nasty}`)}.querySelector('[data-label="failed"]').textContent`), '1');
  await picture('queues-failed-light');
  run('queue', 'resume', 'mail');
  run('queue', 'purge', `broken ${nasty}`);
  await page.until(`!document.title.startsWith('(') || document.title.startsWith('(${marked})')`);
  await go(page, 'locks');

  // By keyboard: filter, and the first row.
  await page.press('/');
  await page.until(`document.activeElement.id === 'filter'`);
  for (const letter of 'orders') await page.press(letter);
  await page.until(`document.querySelectorAll('#view .row.body').length === 1`);
  await page.run('document.activeElement.blur()');
  await page.press('j');
  await page.press('Enter');
  await page.until(`document.getElementById('dialog').open`);
  await picture('lock-light');

  // Breaks a lock, after a reason.
  await page.run(`[...document.querySelectorAll('#dialog button')].find((one) => one.textContent.startsWith('Break')).click()`);
  await fillReason(page, 'the holder is dead');
  await page.until(`!document.getElementById('dialog').open && !(${has('orders:42')})`);
  assert.equal(spawnSync(holdfast, ['lock', 'show', 'orders:42'], {env: {...process.env, HOLDFAST_URL: url}}).status, 1);
  assert.match(server.log, /action=break_lock key="orders:42" fence=\d+ reason="the holder is dead" peer="127\.0\.0\.1:\d+" result=done/);

  // Cancels a task.
  await go(page, 'tasks');
  await page.until(has('reports/make'));
  await page.run(`${rows('reports/make')}.click()`);
  await page.until(`[...document.querySelectorAll('#dialog button')].some((one) => one.textContent.startsWith('Cancel'))`);
  await picture('task-light');
  await page.run(`[...document.querySelectorAll('#dialog button')].find((one) => one.textContent.startsWith('Cancel')).click()`);
  await fillReason(page, 'not needed');
  await page.until(`!document.getElementById('dialog').open && ${rows('reports/make')}.textContent.includes('cancelled')`);
  assert.match(run('task', 'get', '--owner', 'alice', other), /cancelled/);

  // Survives a restart of the store, and says so meanwhile.
  await go(page, 'locks');
  await stop(redis);
  await page.until(`document.getElementById('state-text').textContent === 'store unreachable' && !document.getElementById('banner').hidden`, 30000);
  await picture('unreachable');
  redis = await startRedis();
  await page.until(`document.getElementById('state-text').textContent.startsWith('live')`, 30000);
  acquire('after the restart');
  await page.until(has('after the restart'));
  await go(page, 'events');
  await page.until(`${has('broken')} || ${has('released')}`);
  await page.until(has('store is back'));
  await picture('events-light');
  await go(page, 'doctor');
  await page.until(`document.querySelector('.finding') !== null`, 60000);
  await picture('doctor-light');

  // A grant among ten thousand others: how soon it appears is reported, and not asserted.
  const many = Array.from({length: 10000}, (_, i) => JSON.stringify(
    {jsonrpc: '2.0', id: i, method: 'lock.acquire', params: {key: `crowd:${i}`, ttlMs: 600000}})).join('\n') + '\n';
  execFileSync(holdfast, ['rpc'], {env: {...process.env, HOLDFAST_URL: url}, input: many, maxBuffer: 1 << 28});
  await go(page, 'locks');
  await page.until(`document.getElementById('filter') !== null`);
  await page.run(`document.getElementById('filter').value = 'needle'; document.getElementById('filter').dispatchEvent(new Event('input', {bubbles: true}))`);
  await page.until(`document.querySelectorAll('#view .row.body').length === 0`);
  const times = [];
  for (let i = 0; i < 5; ++i) {
    await pause(500);
    acquire(`needle:${i}`);
    const granted = performance.now();
    await page.until(has(`needle:${i}`), 60000);
    times.push(Math.round(performance.now() - granted));
  }
  console.log(`among 10,000 locks, grants appeared ${times.join(', ')} ms after the command ended`);

  // The server ends: the page says that what it shows is old, and asks for the token when it is back.
  await stop(server);
  await page.until(`document.getElementById('state-text').textContent === 'not connected'`, 30000);
  const again = start(holdfast, 'serve', '--listen', `127.0.0.1:${port}`, '--token-file', tokenFile);
  while (!again.log.includes('listening')) await pause(20);
  await page.until(`document.getElementById('token') !== null`, 30000);

  assert.deepEqual(page.problems, []);
  assert.ok(!server.log.includes(token), 'the token is not logged');
  console.log('passed');
} catch (error) {
  console.error(error);
  console.error('problems of the page:', page.problems, '\nserver:', server.log);
  process.exitCode = 1;
} finally {
  await browser.close();
  for (const child of children) await stop(child, 'SIGKILL');
  rmSync(directory, {recursive: true, force: true});
}
