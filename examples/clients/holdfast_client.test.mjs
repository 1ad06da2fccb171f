// Tests of holdfast_client.mjs, with `holdfast` on the PATH:  node --test holdfast_client.test.mjs
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Disconnected, Failed, Holdfast, HoldfastError, LockLost } from './holdfast_client.mjs';

const asyncDispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');
const directory = mkdtempSync(join(tmpdir(), 'holdfast-'));
const path = join(directory, 'rpc.sock');
process.env.HOLDFAST_URL = `sqlite:${directory}/holdfast.db`;
after(() => rmSync(directory, { recursive: true }));

const eventually = async (condition) => {
  for (const giveUp = Date.now() + 20_000; !(await condition()); await sleep(10)) {
    assert.ok(Date.now() < giveUp, `did not happen: ${condition}`);
  }
};

const storeError = (code) => new HoldfastError({ code: -32000, message: 'the store is away', data: { code } });

/** Whether a sidecar accepts connections; the path exists before it listens. */
const accepts = () => new Promise((resolve) => {
  const probe = connect(path, () => resolve(true)).on('error', () => resolve(false));
  probe.on('connect', () => probe.destroy());
});

/** Starts a sidecar on the socket; resolves when it accepts connections. */
const listen = async (t) => {
  const sidecar = spawn('holdfast', ['rpc', '--listen', path], { stdio: 'ignore' });
  t.after(() => sidecar.kill('SIGKILL'));
  await eventually(accepts);
  return sidecar;
};

const kill = async (sidecar) => {
  sidecar.kill('SIGKILL');
  await once(sidecar, 'exit');
  rmSync(path, { force: true });
};

test('a lock is released at the end of its block', async () => {
  const holdfast = Holdfast.spawn();
  const lock = await holdfast.lock('using');
  assert.equal(await holdfast.call('lock.isLocked', { key: 'using' }), true);
  await lock[asyncDispose](); // what `await using` calls
  assert.equal(await holdfast.call('lock.isLocked', { key: 'using' }), false);
  await holdfast.call('queue.add', { queue: 'using' });
  const job = await holdfast.claim('using');
  await job[asyncDispose]();
  assert.equal((await holdfast.call('queue.get', { queue: 'using', taskId: job.taskId })).queue.place, 'ready');
  const lost = await holdfast.lock('lost', { maxHoldMs: 10 });
  await holdfast.call('lock.release', { lockId: lost.lockId });
  await assert.rejects(lost[asyncDispose](), LockLost);
  await holdfast[asyncDispose]();
});

test('a cancelled wait leaves no lock', async () => {
  const holdfast = Holdfast.spawn();
  const held = await holdfast.lock('cancelled');
  const cancel = new AbortController();
  const waits = Array.from({ length: 8 }, () => holdfast.lock('cancelled', { waitMs: 600_000 }, { signal: cancel.signal }));
  const settled = Promise.allSettled(waits);
  await holdfast.call('holdfast.version');
  cancel.abort();
  await held.release(); // so that one may acquire the lock as it is cancelled
  for (const { status, value, reason } of await settled) {
    if (status === 'fulfilled') await value.release();
    else assert.equal(reason.code, 'Aborted');
  }
  assert.equal(await holdfast.call('lock.isLocked', { key: 'cancelled' }), false);
  await holdfast.close();
});

test('a client reconnects and reports what it lost', async (t) => {
  const sidecar = await listen(t);
  const holdfast = await Holdfast.connect(path);
  const losses = [];
  holdfast.on('lost', ({ reason }) => losses.push(reason));
  const lock = await holdfast.lock('reconnect', { ttlMs: 600_000 });
  await kill(sidecar);
  await assert.rejects(lock.release(), LockLost);
  await eventually(() => losses.length === 1);
  const again = await listen(t);
  assert.equal(await holdfast.call('lock.isLocked', { key: 'reconnect' }), true); // until its lease expires
  await holdfast.lock('subscribed', { maxHoldMs: 10 }); // the new connection is subscribed, too
  await eventually(() => losses.join() === 'disconnected,max_hold');
  await holdfast.close();
  await kill(again);
});

test('a wait for a lock survives the sidecar', async (t) => {
  const sidecar = await listen(t);
  const other = Holdfast.spawn();
  const held = await other.lock('survives');
  const holdfast = await Holdfast.connect(path);
  const waiting = holdfast.lock('survives', { waitMs: 60_000 });
  await holdfast.call('holdfast.version');
  await kill(sidecar);
  const again = await listen(t);
  await held.release();
  assert.ok((await waiting).fence > held.fence);
  await holdfast.close();
  await other.close();
  await kill(again);
});

test('a result that cannot be stored is a failed attempt', async () => {
  const holdfast = Holdfast.spawn();
  const deep = JSON.parse('['.repeat(200) + ']'.repeat(200));
  const results = [1n, deep, 'good'];
  const ids = [];
  for (const n of results.keys()) {
    ids.push((await holdfast.call('queue.add', { queue: 'unstorable', variables: { n } })).task.taskId);
  }
  await holdfast.work('unstorable', (job) => results[job.task.variables.n], { untilEmpty: true });
  const places = [];
  for (const taskId of ids) {
    const task = await holdfast.call('queue.get', { queue: 'unstorable', taskId });
    places.push(`${task.queue.place} ${task.queue.attempts}`);
  }
  assert.deepEqual(places, ['delayed 1', 'delayed 1', 'finished 1']);
  await holdfast.close();
});

test('the reason is known if the sidecar cannot start', async () => {
  const missing = Holdfast.spawn('no-such-program');
  await assert.rejects(missing.call('holdfast.version'), /cannot start no-such-program: .*ENOENT/);
  await assert.rejects(missing.call('holdfast.version'), Disconnected); // once more, by a new attempt
  await assert.rejects(Holdfast.connect('/nowhere'), /no sidecar on \/nowhere: .*ENOENT.*holdfast rpc --listen/);
  const refused = Holdfast.spawn('holdfast', ['--url', 'nonsense://', 'rpc']);
  await assert.rejects(refused.call('holdfast.version'), /exit code 64\): .*nonsense/);
});

test('errors have the names of their classes, and a failed attempt is logged', async (t) => {
  const holdfast = Holdfast.spawn();
  t.after(() => holdfast.close());
  await assert.rejects(holdfast.call('lock.lock', {}), (error) => String(error).startsWith('HoldfastError: key: '));
  const logged = t.mock.method(console, 'error', () => {});
  for (const n of [1, 2]) await holdfast.call('queue.add', { queue: 'logged', variables: { n } });
  await holdfast.work('logged', async (job) => {
    throw job.variables.n === 1 ? new Failed('for good') : new Error('flaky');
  }, { untilEmpty: true });
  assert.equal(logged.mock.callCount(), 1); // Failed is an outcome that the work chose
  assert.match(logged.mock.calls[0].arguments[0], /^attempt 1 of .* failed:$/);
  assert.equal(logged.mock.calls[0].arguments[1].message, 'flaky');
});

test('a close ends what waits and releases all locks', async () => {
  const other = Holdfast.spawn();
  const holdfast = Holdfast.spawn();
  await holdfast.lock('closed');
  const waiting = assert.rejects(
    holdfast.call('queue.claimNext', { queues: ['closed'], waitMs: 600_000 }), Disconnected);
  await holdfast.call('holdfast.version');
  await holdfast.close();
  await waiting;
  assert.equal(await other.call('lock.isLocked', { key: 'closed' }), false);
  await assert.rejects(holdfast.call('lock.lock', { key: 'closed' }), Disconnected);
  await other.close();
});

test('a close during a reconnect leaves no sidecar', async (t) => {
  const sidecar = await listen(t);
  const other = Holdfast.spawn();
  const holdfast = await Holdfast.connect(path);
  const lost = once(holdfast, 'lost');
  await kill(sidecar);
  await lost;
  const again = await listen(t);
  const late = assert.rejects(holdfast.call('lock.lock', { key: 'late' }), Disconnected);
  await holdfast.close();
  await late;
  assert.equal(await other.call('lock.isLocked', { key: 'late' }), false);
  await other.close();
  await kill(again);
});

test('workers outlive an outage of the store and end together', async (t) => {
  const holdfast = Holdfast.spawn();
  t.after(() => holdfast.close());
  const logged = t.mock.method(console, 'error', () => {});
  const { taskId } = (await holdfast.call('queue.add', { queue: 'outage' })).task;
  const claim = holdfast.claim.bind(holdfast);
  const errors = ['ServiceUnavailable'];
  let isWorking = false;
  let finish;
  holdfast.claim = async (queues, options) => {
    if (errors.length > 0) throw storeError(errors.pop());
    if (!isWorking) return claim(queues, { ...options, waitMs: 0 });
    setTimeout(finish, 100);
    throw storeError('AuthFailed');
  };
  const pool = holdfast.work('outage', async () => {
    isWorking = true;
    await new Promise((resolve) => { finish = resolve; });
  }, { concurrency: 2 });
  await assert.rejects(pool, { code: 'AuthFailed' });
  assert.equal(logged.mock.callCount(), 1);
  assert.match(logged.mock.calls[0].arguments[0], /^the store does not answer/);
  // Not before the other worker has finished its job.
  assert.equal((await holdfast.call('queue.get', { queue: 'outage', taskId })).task.status, 'completed');
});
