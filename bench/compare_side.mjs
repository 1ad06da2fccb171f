// One side of the comparison that compare.py makes, for sides that are Node.js; orders as in compare_side.cpp.
//
//   node compare_side.mjs syncguard PEERS PORT     SyncGuard's documented scripts, by ioredis
//   node compare_side.mjs redlock PEERS PORT       redlock with one server, by ioredis
//   node compare_side.mjs holdfast PROGRAM URL     the Node.js client, through the sidecar
import crypto from 'node:crypto';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const [name, ...where] = process.argv.slice(2);
const node = `Node.js ${process.versions.node}`;

/** ioredis and others, from the directory that they were installed into. */
const peers = (directory) => {
  const require = createRequire(join(resolve(directory), 'node_modules/'));
  const versionOf = (peer) => JSON.parse(fs.readFileSync(join(directory, 'node_modules', peer, 'package.json'))).version;
  return { require, versionOf };
};

const connected = async (Redis, port) => {
  const redis = new Redis({ port: Number(port), host: '127.0.0.1' });
  redis.on('error', () => {});
  await redis.ping();
  return redis;
};

class SyncGuard {
  static async make(directory, port) {
    const { require, versionOf } = peers(directory);
    const side = new SyncGuard();
    side.version = `ioredis ${versionOf('ioredis')}, ${node}`;
    side.redis = await connected(require('ioredis'), port);
    const lua = (file) => fs.readFileSync(new URL(`../test/vectors/documented/${file}.lua`, import.meta.url), 'utf8');
    side.redis.defineCommand('acquireLock', { numberOfKeys: 3, lua: lua('acquire') });
    side.redis.defineCommand('releaseLock', { numberOfKeys: 1, lua: lua('release_extend') });
    return side;
  }
  async pair(worker) {
    const lockId = crypto.randomBytes(16).toString('base64url');
    const lockKey = `syncguard:side:node:${worker}`;
    const result = await this.redis.acquireLock(lockKey, `syncguard:id:${lockId}`, `syncguard:fence:${lockKey}`,
      lockId, 30000, 1000, lockKey, `side:node:${worker}`);
    if (result === 0) throw new Error('not granted');
    if ((await this.redis.releaseLock(`syncguard:id:${lockId}`, lockId, 1000)) !== 1) throw new Error('not released');
  }
}

class Redlock {
  static async make(directory, port) {
    const { require, versionOf } = peers(directory);
    const side = new Redlock();
    side.version = `redlock ${versionOf('redlock')}, ioredis ${versionOf('ioredis')}, ${node}`;
    const Locks = require('redlock');
    // Its defaults: a waiter polls every 200 ms, give or take 100 ms, and gives up after 10 retries.
    side.locks = [];
    for (let i = 0; i < 2; ++i) side.locks.push(new Locks([await connected(require('ioredis'), port)]));
    return side;
  }
  async pair(worker) {
    const lock = await this.locks[0].lock(`side:redlock:${worker}`, 30000);
    await lock.unlock();
  }
  async handOff(held) {
    const lock = await this.locks[0].lock('side:redlock', 30000);
    const waiter = this.locks[1].lock('side:redlock', 30000).then(async (next) => {
      const granted = performance.now();
      await next.unlock();
      return granted;
    });
    await sleep(held);
    const start = performance.now();
    await lock.unlock();
    return (await waiter) - start;
  }
}

class Ours {
  static async make(program, url) {
    const { Holdfast } = await import('../examples/clients/holdfast_client.mjs');
    const side = new Ours();
    side.version = node;
    side.client = Holdfast.spawn(program, ['--url', url, 'rpc']);
    return side;
  }
  async pair(worker) {
    const lock = await this.client.call('lock.acquire', { key: `side:node:ours:${worker}`, ttlMs: 30000 });
    if (!lock.ok) throw new Error('not granted');
    const released = await this.client.call('lock.release', { lockId: lock.lockId });
    if (!released.ok) throw new Error('not released');
  }
}

const pairs = async (side, inFlight, milliseconds) => {
  const took = [];
  const start = performance.now();
  await Promise.all(Array.from({ length: inFlight }, async (_, worker) => {
    for (let last = start, end; last - start < milliseconds; last = end) {
      await side.pair(worker);
      end = performance.now();
      took.push((end - last) * 1000);
    }
  }));
  const seconds = (performance.now() - start) / 1000;
  took.sort((a, b) => a - b);
  const at = (part) => took[Math.floor(part * (took.length - 1))];
  return { pairs: took.length, seconds, p50: at(0.5), p99: at(0.99) };
};

const side = await { syncguard: SyncGuard, redlock: Redlock, holdfast: Ours }[name].make(...where);
console.log(JSON.stringify({ version: side.version }));
for await (const line of createInterface({ input: process.stdin })) {
  const [order, ...numbers] = line.split(' ');
  if (order === 'pairs') {
    console.log(JSON.stringify(await pairs(side, Number(numbers[0]), Number(numbers[1]))));
  } else {
    const took = [];
    for (const held of numbers) took.push((await side.handOff(Number(held))) * 1000);
    console.log(JSON.stringify({ took }));
  }
}
process.exit(0);
