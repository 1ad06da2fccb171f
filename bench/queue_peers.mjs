// Queues of Holdfast and of BullMQ on one Redis server: the same payload, a day of retention, no persistence,
// one process each, in turns.
//
//   npm install --prefix PEERS bench/peers    (once)
//   node bench/queue_peers.mjs BUILD_DIR PEERS [COUNT [ROUNDS]]
//
// Prints jobs per second and microseconds of the server's processor time per job, for adding and working apart, with
// 1 and 50 in flight; and how long a new job waits for a worker. Ratios above 1: Holdfast is faster.
import { spawn, execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const [build, peers, count = 5000, rounds = 3] = process.argv.slice(2);
if (!build || !peers) {
  console.error('usage: node bench/queue_peers.mjs BUILD_DIR PEERS [COUNT [ROUNDS]]');
  process.exit(64);
}
const require = createRequire(join(resolve(peers), 'node_modules/'));
const { Queue, Worker } = require('bullmq');
const Redis = require('ioredis');
const jobs = Number(count);
const payload = { to: 'someone@example.org', subject: 'Welcome', template: 7, tags: ['a', 'b'] };
const options = { removeOnComplete: { age: 86400 }, attempts: 5, backoff: { type: 'exponential', delay: 1000 } };

const freePort = () =>
  new Promise((done) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });

const port = await freePort();
const dir = mkdtempSync(join(tmpdir(), 'queue-peers-'));
const server = spawn('redis-server', ['--port', port, '--bind', '127.0.0.1', '--dir', dir, '--save', '', '--appendonly', 'no'], {
  stdio: 'ignore',
});
const redis = new Redis({ port, host: '127.0.0.1', retryStrategy: () => 50, maxRetriesPerRequest: null });
redis.on('error', () => {}); // until the server listens
await redis.ping();

const serverMicros = async () => {
  const text = await redis.info('cpu');
  const value = (name) => Number(text.match(new RegExp(`${name}:([0-9.]+)`))[1]);
  return (value('used_cpu_user') + value('used_cpu_sys')) * 1e6;
};

const connection = () => ({ host: '127.0.0.1', port, maxRetriesPerRequest: null });
const program = join(resolve(build), 'bench/queue_jobs');
const ours = async (what, n, inFlight) => {
  const { stdout } = await promisify(execFile)(program, [`redis://127.0.0.1:${port}`, what, String(n), String(inFlight)]);
  return JSON.parse(stdout);
};

const bull = {
  async add(n, inFlight) {
    const queue = new Queue('mail', { connection: connection() });
    await queue.waitUntilReady();
    const start = performance.now();
    let left = n;
    const one = async () => {
      while (left-- > 0) await queue.add('mail', payload, options);
    };
    await Promise.all(Array.from({ length: inFlight }, one));
    const seconds = (performance.now() - start) / 1000;
    await queue.close();
    return { seconds };
  },
  async work(n, inFlight) {
    let done = 0;
    let finished;
    const all = new Promise((resolve) => (finished = resolve));
    const worker = new Worker('mail', async () => ({ sent: true }), { connection: connection(), concurrency: inFlight, autorun: false });
    worker.on('completed', () => ++done === n && finished());
    await worker.waitUntilReady();
    const start = performance.now();
    worker.run();
    await all;
    const seconds = (performance.now() - start) / 1000;
    await worker.close();
    return { seconds };
  },
  async 'pick-up'(n, idle) {
    const queue = new Queue('mail', { connection: connection() });
    const took = [];
    let started;
    let next;
    // BullMQ's unit of waiting is a Worker with its own blocking connection.
    const workers = Array.from({ length: idle }, () => new Worker('mail', async () => {
      took.push((performance.now() - started) * 1000);
      next();
    }, { connection: connection() }));
    await Promise.all(workers.map((worker) => worker.waitUntilReady()));
    await new Promise((resolve) => setTimeout(resolve, 1000));
    for (let i = 0; i < n; ++i) {
      const picked = new Promise((resolve) => (next = resolve));
      started = performance.now();
      await queue.add('mail', payload, options);
      await picked;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await Promise.all(workers.map((worker) => worker.close()));
    await queue.close();
    took.sort((a, b) => a - b);
    return { seconds: 0, p50: took[Math.floor(0.5 * (took.length - 1))], p99: took[Math.floor(0.99 * (took.length - 1))] };
  },
};

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
const measured = async (call, n) => {
  const before = await serverMicros();
  const { seconds, ...rest } = await call();
  return { perSecond: n / seconds, serverMicros: ((await serverMicros()) - before) / n, ...rest };
};

try {
  console.log(`${jobs} jobs, median of ${rounds} rounds; per second, and µs of the server per job`);
  for (const inFlight of [1, 50]) {
    const results = { add: [[], []], work: [[], []] };
    for (let round = 0; round < Number(rounds); ++round) {
      for (const what of ['add', 'work']) {
        results[what][0].push(await measured(() => ours(what, jobs, inFlight), jobs));
      }
      await redis.flushall();
      for (const what of ['add', 'work']) {
        results[what][1].push(await measured(() => bull[what](jobs, inFlight), jobs));
      }
      await redis.flushall();
    }
    for (const what of ['add', 'work']) {
      const [holdfast, bullmq] = results[what].map((all) => ({
        perSecond: median(all.map((one) => one.perSecond)),
        serverMicros: median(all.map((one) => one.serverMicros)),
      }));
      console.log(
        `${what.padEnd(5)} ${String(inFlight).padStart(2)} in flight:  Holdfast ${holdfast.perSecond.toFixed(0)}/s ${holdfast.serverMicros.toFixed(1)} µs` +
          `   BullMQ ${bullmq.perSecond.toFixed(0)}/s ${bullmq.serverMicros.toFixed(1)} µs` +
          `   ratio ${(holdfast.perSecond / bullmq.perSecond).toFixed(2)}, server ${(bullmq.serverMicros / holdfast.serverMicros).toFixed(2)}`,
      );
    }
  }
  for (const idle of [1, 50, 500]) {
    const us = await ours('pick-up', 200, idle);
    await redis.flushall();
    const them = idle <= 50 ? await bull['pick-up'](200, idle) : null;
    await redis.flushall();
    const trips = [];
    for (let i = 0; i < 200; ++i) {
      const start = performance.now();
      await redis.ping();
      trips.push((performance.now() - start) * 1000);
    }
    console.log(
      `pick-up, ${idle} idle:  Holdfast p50 ${us.p50.toFixed(0)} µs p99 ${us.p99.toFixed(0)} µs, ${us.attempts / us.done} attempts a job` +
        (them ? `   BullMQ p50 ${them.p50.toFixed(0)} µs p99 ${them.p99.toFixed(0)} µs` : '   BullMQ not measured') +
        `   (a round trip of this process: ${median(trips).toFixed(0)} µs)`,
    );
  }
} finally {
  redis.disconnect();
  server.kill();
  rmSync(dir, { recursive: true, force: true });
}
