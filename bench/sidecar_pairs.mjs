// Lock pairs (acquire and release) of one Node.js process on one Redis: through the sidecar, against SyncGuard's
// documented scripts run in the process by ioredis. One at a time, and 32 in flight. The sides take turns, so that
// what else the machine does hits all of them; each ratio is the median of the rounds'.
//
//   node bench/sidecar_pairs.mjs REDIS_SOCKET HOLDFAST... [--rounds N]
//
// Several programs (an earlier build, this one) are compared in one run. Needs scripts/interop-packages.
import crypto from 'node:crypto';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { Holdfast } from '../examples/clients/holdfast_client.mjs';

const require = createRequire(new URL('../build/interop/', import.meta.url));
const Redis = require('ioredis');

const args = process.argv.slice(2);
const at = args.indexOf('--rounds');
const rounds = at < 0 ? 15 : Number(args.splice(at, 2)[1]);
const [socket, ...programs] = args;
const roundMs = 250;

class SyncGuard {
  #redis = new Redis(socket);
  constructor() {
    const lua = (name) => fs.readFileSync(new URL(`../test/vectors/documented/${name}.lua`, import.meta.url), 'utf8');
    this.#redis.defineCommand('acquireLock', { numberOfKeys: 3, lua: lua('acquire') });
    this.#redis.defineCommand('releaseLock', { numberOfKeys: 1, lua: lua('release_extend') });
  }
  async pair(key) {
    const lockId = crypto.randomBytes(16).toString('base64url');
    const lockKey = `syncguard:${key.normalize('NFC')}`;
    const result = await this.#redis.acquireLock(lockKey, `syncguard:id:${lockId}`, `syncguard:fence:${lockKey}`,
      lockId, 30000, 1000, lockKey, key);
    if (result === 0) throw new Error('not acquired');
    const released = await this.#redis.releaseLock(`syncguard:id:${lockId}`, lockId, 1000);
    if (released !== 1) throw new Error('not released');
  }
  close() { this.#redis.disconnect(); }
}

class Sidecar {
  #client;
  constructor(program) { this.#client = Holdfast.spawn(program, ['--url', `unix:${socket}`, 'rpc']); }
  async pair(key) {
    const lock = await this.#client.call('lock.acquire', { key, ttlMs: 30000 });
    if (!lock.ok) throw new Error('not acquired');
    const released = await this.#client.call('lock.release', { lockId: lock.lockId });
    if (!released.ok) throw new Error('not released');
  }
  close() { return this.#client.close(); }
}

async function pairsPerSecond(side, inFlight) {
  const begin = process.hrtime.bigint();
  const end = begin + BigInt(roundMs) * 1_000_000n;
  let pairs = 0;
  await Promise.all(Array.from({ length: inFlight }, async (_, worker) => {
    while (process.hrtime.bigint() < end) {
      await side.pair(`pair-${worker}`);
      ++pairs;
    }
  }));
  return pairs / (Number(process.hrtime.bigint() - begin) / 1e9);
}

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const reference = new SyncGuard();
const sidecars = programs.map((program) => new Sidecar(program));
const sides = [reference, ...sidecars];
for (const side of sides) await pairsPerSecond(side, 32); // warm
for (const inFlight of [1, 32]) {
  const rates = sides.map(() => []);
  for (let round = 0; round < rounds; ++round) {
    for (let i = 0; i < sides.length; ++i) rates[i].push(await pairsPerSecond(sides[i], inFlight));
  }
  console.log(`${inFlight} in flight: SyncGuard ${Math.round(median(rates[0]))} pairs/s`);
  programs.forEach((program, i) => {
    const ratio = median(rates[i + 1].map((rate, round) => rate / rates[0][round]));
    console.log(`  ${program}: ${Math.round(median(rates[i + 1]))} pairs/s, ${ratio.toFixed(2)} of SyncGuard's`);
  });
}
for (const side of sides) await side.close();
