'use strict';
// A client of SyncGuard's Redis backend, written from its document and from nothing of Holdfast's: the scripts
// exactly as printed there, run by ioredis' defineCommand; its names, normalisation and hash.
//
//   node syncguard.cjs SOCKET PREFIX SCRIPTS_DIR
//
// Takes one JSON request per line on its standard input, answers each with one JSON line.

const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');
const Redis = require('ioredis');

const [socket, prefix, scriptsDir] = process.argv.slice(2);
const TIME_TOLERANCE_MS = 1000;
const LIMIT_BYTES = 1000;
const RESERVE_BYTES = 26;

const redis = new Redis(socket);
const script = (name) => fs.readFileSync(path.join(scriptsDir, `${name}.lua`), 'utf8');
redis.defineCommand('acquireLock', { numberOfKeys: 3, lua: script('acquire') });
redis.defineCommand('releaseLock', { numberOfKeys: 1, lua: script('release_extend') });
redis.defineCommand('extendLock', { numberOfKeys: 1, lua: script('release_extend') });
redis.defineCommand('lookupLock', { numberOfKeys: 1, lua: script('lookup') });

const bytes = (text) => Buffer.byteLength(text, 'utf8');

function makeStorageKey(keyPrefix, key) {
  const normalized = key.normalize('NFC');
  const trimmed = keyPrefix.replace(/:+$/, '');
  const head = trimmed === '' ? '' : `${trimmed}:`;
  const whole = head + normalized;
  if (bytes(whole) + RESERVE_BYTES <= LIMIT_BYTES) return whole;
  const digest = crypto.createHash('sha256').update(whole, 'utf8').digest();
  return head + digest.subarray(0, 16).toString('base64url');
}
const lockKeyOf = (key) => makeStorageKey(prefix, key);
const indexKeyOf = (lockId) => makeStorageKey(prefix, `id:${lockId}`);
const fenceKeyOf = (key) => makeStorageKey(prefix, `fence:${lockKeyOf(key)}`);

function hashKey(value) {
  const normalized = value.normalize('NFC');
  let h1 = 0;
  let h2 = 0;
  let h3 = 0;
  for (let i = 0; i < normalized.length; i++) {
    const c = normalized.charCodeAt(i);
    h1 = (Math.imul(h1, 31) + c) | 0;
    h2 = (Math.imul(h2, 127) + c * 3) | 0;
    h3 = (Math.imul(h3, 2047) + c * 7) | 0;
  }
  return [h1, h2, h3].map((h) => (h >>> 0).toString(16).padStart(8, '0')).join('');
}

async function liveData(key) {
  const text = await redis.get(lockKeyOf(key));
  if (text === null) return null;
  const [seconds, microseconds] = await redis.time();
  const nowMs = Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000);
  const data = JSON.parse(text);
  return data.expiresAtMs > nowMs - TIME_TOLERANCE_MS ? data : null;
}

async function acquire(key, ttlMs) {
  const lockId = crypto.randomBytes(16).toString('base64url');
  const lockKey = lockKeyOf(key);
  const result = await redis.acquireLock(lockKey, indexKeyOf(lockId), fenceKeyOf(key), lockId, ttlMs,
    TIME_TOLERANCE_MS, lockKey, key.normalize('NFC'));
  if (result === 0) return { ok: false };
  const [, fence, expiresAtMs] = result;
  return { ok: true, lockId, fence, expiresAtMs };
}

const release = (lockId) => redis.releaseLock(indexKeyOf(lockId), lockId, TIME_TOLERANCE_MS);

const operations = {
  acquire: ({ key, ttlMs }) => acquire(key, ttlMs),
  release: async ({ lockId }) => ({ code: await release(lockId) }),
  extend: async ({ lockId, ttlMs }) => {
    const result = await redis.extendLock(indexKeyOf(lockId), lockId, TIME_TOLERANCE_MS, ttlMs);
    return Array.isArray(result) ? { code: result[0], expiresAtMs: result[1] } : { code: result };
  },
  isLocked: async ({ key }) => ({ locked: (await liveData(key)) !== null }),
  lookup: async ({ key }) => ({ data: await liveData(key) }),
  lookupById: async ({ lockId }) => {
    const text = await redis.lookupLock(indexKeyOf(lockId), lockId, TIME_TOLERANCE_MS);
    return { data: text === null ? null : JSON.parse(text) };
  },
  hash: ({ text }) => ({ hash: hashKey(text) }),
  names: ({ key, lockId }) => ({ lock: lockKeyOf(key), index: indexKeyOf(lockId), fence: fenceKeyOf(key) }),
  // Adds to a counter, under the lock, in two steps that only the lock keeps together.
  count: async ({ key, counter, rounds }) => {
    for (let round = 0; round < rounds;) {
      const lock = await acquire(key, 30000);
      if (!lock.ok) {
        await new Promise((resolve) => setTimeout(resolve, 1));
        continue;
      }
      const value = Number(await redis.get(counter));
      await redis.set(counter, value + 1);
      if (await release(lock.lockId) !== 1) throw new Error('lost a lock while counting');
      round++;
    }
    return { done: rounds };
  },
};

const requests = readline.createInterface({ input: process.stdin });
requests.on('line', async (line) => {
  let answer;
  try {
    const { op, ...parameters } = JSON.parse(line);
    answer = await operations[op](parameters);
  } catch (error) {
    answer = { error: String(error.message) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
});
requests.on('close', () => redis.disconnect());
