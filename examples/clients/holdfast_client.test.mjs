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

import { Disconnected, Failed, Holdfast, HoldfastError, LockLost, UnknownOutcome } from './holdfast_client.mjs';

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
  const lost = await holdfast.lock('lost', { maxHoldMs: 1500 });
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
  await holdfast.lock('subscribed', { maxHoldMs: 1500 }); // the new connection is subscribed, too
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

/** A sidecar whose process the test may stop and kill. */
const startSidecar = (t, options) => {
  const process = spawn('holdfast', ['rpc'], { stdio: ['pipe', 'pipe', 'ignore'] });
  t.after(() => process.kill('SIGKILL'));
  const reason = async () => 'the sidecar has gone';
  const kill = () => process.kill('SIGKILL');
  return { process, holdfast: new Holdfast(process.stdout, process.stdin, { reason, kill, ...options }) };
};

test('an answer that is cut off is an unknown outcome', async () => {
  const holdfast = Holdfast.spawn('sh', ['-c', 'holdfast rpc | dd bs=1 count=3000 2>/dev/null']);
  const losses = [];
  holdfast.on('lost', (loss) => losses.push(loss));
  const lock = await holdfast.lock('cut', { ttlMs: 600_000 });
  const isCut = (error) => error instanceof UnknownOutcome && /whether rpc.discover took effect/.test(error.message);
  await assert.rejects(holdfast.call('rpc.discover'), isCut);
  assert.equal(lock.signal.reason.reason, 'disconnected');
  assert.deepEqual(losses, [{ reason: 'disconnected' }]);
  await assert.rejects(lock.release(), LockLost);
  assert.equal(await holdfast.call('lock.isLocked', { key: 'not cut' }), false); // by a new sidecar
  await holdfast.close();
});

test('a line that is not JSON ends the connection, not the program', async () => {
  const holdfast = Holdfast.spawn('sh', ['-c', 'echo nonsense; cat >/dev/null'], { reconnectMs: 0 });
  await assert.rejects(holdfast.call('lock.isLocked', { key: 'k' }), Disconnected);
  await holdfast.close();
});

// It says more than a client knows, and puts each lock at risk at once.
const talkative = `
  const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
  require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method } = JSON.parse(line);
    if (id === undefined) return;
    say({ method: 'lock.ofALaterVersion' });
    say({ id: 999999, result: 'of a request that was not made' });
    const lock = { lockId: 'L', keyHash: 'h' };
    if (method === 'lock.lock') {
      say({ id, result: { ok: true, lockId: 'L', fence: '000000000000001', expiresAtMs: 1 } });
      say({ method: 'lock.atRisk', params: { ...lock, atRisk: true, remainingMs: 500 } });
    } else if (method === 'lock.isLocked') {
      say({ method: 'lock.lost', params: { ...lock, reason: 'gone', remainingMs: 0 } });
      say({ id, result: true });
    } else {
      say({ id, result: { ok: true, remainingMs: 1000 } });
    }
  });`;

test('what a client does not know is ignored', async () => {
  const holdfast = Holdfast.spawn(process.execPath, ['-e', talkative]);
  const losses = [];
  holdfast.on('lost', ({ reason }) => losses.push(reason));
  await holdfast.withLock('k', { ttlMs: 30_000 }, async (lock, { signal }) => {
    await eventually(() => lock.atRisk);
    assert.equal(signal.aborted, false);
    assert.ok(lock.remainingMs > 0);
    assert.equal(await holdfast.call('lock.isLocked', { key: 'k' }), true);
    assert.equal(signal.reason.reason, 'gone');
    assert.equal(lock.remainingMs, 0);
  });
  assert.deepEqual(losses, ['gone']);
  await holdfast.close();
});

test('a listener that throws does not keep answers from their callers', async (t) => {
  const holdfast = Holdfast.spawn(process.execPath, ['-e', talkative]);
  t.after(() => holdfast.close());
  const thrown = new Promise((resolve) => process.setUncaughtExceptionCaptureCallback(resolve));
  t.after(() => process.setUncaughtExceptionCaptureCallback(null));
  holdfast.on('lost', () => { throw new Error('as planned'); });
  const lock = await holdfast.lock('k');
  assert.equal(await holdfast.call('lock.isLocked', { key: 'k' }), true);
  assert.equal((await thrown).message, 'as planned');
  await lock.release();
});

test('a lock is lost before the lease of a sidecar that hangs expires', async (t) => {
  const other = Holdfast.spawn();
  const { process: sidecar, holdfast } = startSidecar(t);
  const losses = [];
  holdfast.on('lost', (loss) => losses.push(loss));
  let isGranted;
  await assert.rejects(holdfast.withLock('hangs', { ttlMs: 2400 }, async (lock, { signal }) => {
    sidecar.kill('SIGSTOP');
    await once(signal, 'abort');
    assert.deepEqual(losses, [{ lockId: lock.lockId, reason: 'unproven' }]);
    isGranted = (await other.call('lock.acquire', { key: 'hangs', ttlMs: 1000 })).ok;
    assert.match(signal.reason.message, /^the lock "hangs" was lost: unproven$/);
    sidecar.kill('SIGKILL');
  }), LockLost);
  assert.equal(isGranted, false);
  await other.close();
});

test('a job is stopped before the lease of a sidecar that hangs expires', async (t) => {
  const { process: sidecar, holdfast } = startSidecar(t);
  await holdfast.call('queue.add', { queue: 'hangs' });
  const job = await holdfast.claim('hangs', { leaseMs: 1200 });
  sidecar.kill('SIGSTOP');
  await once(job.signal, 'abort');
  assert.equal(job.signal.reason.message, 'unproven');
});

test('a job is stopped before the time limit of its attempt is over', async (t) => {
  const { process: sidecar, holdfast } = startSidecar(t);
  await holdfast.call('queue.add', { queue: 'limited', attemptLimitMs: 1200 });
  const begun = Date.now();
  const job = await holdfast.claim('limited'); // with a longer lease
  sidecar.kill('SIGSTOP');
  await once(job.signal, 'abort');
  assert.ok(Date.now() - begun < 1200);
});

test('a lock that is renewed is not lost', async () => {
  const holdfast = Holdfast.spawn();
  const lock = await holdfast.lock('renewed', { ttlMs: 1800 });
  await sleep(2000);
  assert.equal(lock.signal.aborted, false);
  await lock.release();
  await holdfast.close();
});

test('a lock that was waited for is proven when its work begins', async () => {
  const holdfast = Holdfast.spawn();
  const held = await holdfast.lock('waited');
  const waiting = holdfast.lock('waited', { ttlMs: 900, waitMs: 60_000 }); // it waits longer than its ttl
  await sleep(1000);
  await held.release();
  const lock = await waiting;
  assert.equal(lock.signal.aborted, false);
  assert.ok(lock.remainingMs > 0);
  await lock.release();
  await holdfast.close();
});

test('a signal cancels the wait of withLock', async () => {
  const holdfast = Holdfast.spawn();
  const held = await holdfast.lock('given up');
  const waiting = holdfast.withLock('given up', { waitMs: 600_000, signal: AbortSignal.timeout(50) }, () => assert.fail());
  await assert.rejects(waiting, { code: 'Aborted' });
  await held.release();
  assert.equal(await holdfast.call('lock.isLocked', { key: 'given up' }), false);
  await holdfast.close();
});

test('a request that was not sent did not happen, and its wait is cancelled', async (t) => {
  const { process: sidecar, holdfast } = startSidecar(t);
  await holdfast.call('holdfast.version');
  sidecar.kill('SIGSTOP');
  const requests = Array.from({ length: 100 }, () => holdfast.call('lock.isLocked', { key: 'k' }));
  const outcomes = Promise.allSettled(requests);
  const cancel = new AbortController();
  const late = assert.rejects(holdfast.call('lock.lock', { key: 'k' }, { signal: cancel.signal }), { code: 'Aborted' });
  cancel.abort();
  await late;
  sidecar.kill('SIGKILL');
  const names = (await outcomes).map(({ reason }) => reason.name);
  assert.deepEqual(names, [...Array(60).fill('UnknownOutcome'), ...Array(40).fill('Disconnected')]);
});

test('a close does not wait for a sidecar that hangs', async (t) => {
  const { process: sidecar, holdfast } = startSidecar(t, { closeMs: 100 });
  await holdfast.call('holdfast.version');
  sidecar.kill('SIGSTOP');
  const waiting = assert.rejects(holdfast.call('lock.isLocked', { key: 'k' }), UnknownOutcome);
  await holdfast.close();
  await waiting;
});
