#!/usr/bin/env node
// Locks, tasks and queues for Node.js, through `holdfast rpc`. No packages: copy this file and use it.
//
//     import { Holdfast } from './holdfast_client.mjs';
//
//     const holdfast = await Holdfast.connect('/run/user/1000/holdfast.sock');  // or Holdfast.spawn()
//     await holdfast.withLock('nightly-backup', { waitMs: 60_000 }, async (lock) => backup(lock.fence));
//     { await using lock = await holdfast.lock('nightly-backup'); await backup(lock.fence); }  // the same, as a block
//     await holdfast.work('render', async (job) => render(job.variables), { concurrency: 4 });  // a pool of workers
//     await holdfast.close();
//
// Run it as a program for a demonstration:  holdfast_client.mjs [SOCKET]

import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const longestLine = 16 * 1024 * 1024; // the sidecar's limit for one request

const asyncDispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose'); // Node 18.18 and later have it

const decidedCodes = ['NotFound', 'InvalidTransition', 'StaleFence', 'WrongLock']; // the job has ended
const unstorableCodes = ['TooLarge', 'TooDeep'];
// These wait for other clients; the others end soon.
const waitingMethods = ['lock.lock', 'task.claim', 'task.wait', 'queue.claimNext', 'queue.wait'];
const transientCodes = ['ServiceUnavailable', 'NetworkTimeout', 'RateLimited']; // the store cannot be reached for now

const trace = (direction, line) => {
  if (process.env.HOLDFAST_TRACE) console.error(`node   ${direction} ${line}`);
};

/** Throws RangeError if the sidecar could not parse the request: half of a surrogate pair, or a line too long. */
const lineOf = (message) => {
  const line = JSON.stringify(message);
  // JSON.stringify escapes a surrogate only if its other half is missing, and doubles a backslash of the text.
  const half = line.includes('\\ud') && /(?<!\\)(?:\\\\)*(\\ud[89a-f]..)/.exec(line);
  if (half) throw new RangeError(`no Unicode text: it contains ${half[1]}, half of a surrogate pair`);
  if (line.length * 3 > longestLine && Buffer.byteLength(line) > longestLine) {
    throw new RangeError(`the request is longer than ${longestLine} bytes`);
  }
  return line;
};

/** The error of a request: `code` is its name (NotFound), `number` the JSON-RPC error code. */
export class HoldfastError extends Error {
  constructor(error) {
    super(error.message);
    this.number = error.code;
    this.code = error.data?.code;
  }
}

/** There is no sidecar; the message has the reason. A change that was in progress may have taken effect. */
export class Disconnected extends Error {}

/** The lock was lost before the work was done. Its fence keeps late writes out. */
export class LockLost extends Error {}

/** Thrown by the function of work(): the task cannot be done, and is not attempted again. */
export class Failed extends Error {}

// As String(error) and console.error show them.
for (const kind of [HoldfastError, Disconnected, LockLost, Failed]) {
  Object.defineProperty(kind.prototype, 'name', { value: kind.name, configurable: true, writable: true });
}

/**
 * One attempt at a task of a queue; Holdfast.claim() resolves with one. Its lease is renewed until it ends. `signal` is
 * aborted when the work should stop (the task was cancelled, the lease is lost, or the connection has ended), with a
 * `reason` that says which. Pass `fence` along with what the work writes elsewhere.
 *
 * End it by one of complete(), fail(), retry() and giveBack(). They reject with a HoldfastError of the code
 * InvalidTransition (the task was cancelled, for example), StaleFence (another worker has it) or NotFound. At the end of
 * an `await using` block without an outcome, the job is given back.
 */
export class Job {
  #connection;
  #jobId;
  #ended = false;

  constructor(connection, { jobId, queue, taskId, attempt, fence, task }) {
    this.#connection = connection;
    this.#jobId = jobId;
    Object.assign(this, { queue, taskId, attempt, fence, task, signal: connection.stopOf(jobId).signal });
  }

  get variables() { return this.task.variables; }
  /** Merges them into the task's variables, for progress; null deletes one. */
  async setVariables(variables) {
    this.task = await this.#connection.call('job.setVariables', { jobId: this.#jobId, variables });
  }
  complete(result, message) { return this.#end('job.complete', { result, statusMessage: message }); }
  fail(message, result) { return this.#end('job.fail', { result, statusMessage: message }); }
  retry(message, delayMs) { return this.#end('job.retry', { statusMessage: message, delayMs }); }
  giveBack() { return this.#end('job.giveBack', {}); }

  async [asyncDispose]() { if (!this.#ended) await this.giveBack(); }

  async #end(method, params) {
    try {
      const task = await this.#connection.call(method, { jobId: this.#jobId, ...params });
      this.#forget();
      return task;
    } catch (error) {
      // After these the store has decided; after others the same call can be repeated.
      if (decidedCodes.includes(error.code) || method === 'job.giveBack') this.#forget();
      throw error;
    }
  }

  #forget() {
    this.#ended = true;
    this.#connection.stops.delete(this.#jobId);
  }
}

/**
 * A held lock, renewed until it is released: `lockId`, `fence`, `expiresAtMs`. Send its `fence` with every write. The end
 * of an `await using` block releases it.
 */
export class Lock {
  #connection;
  #key;
  #released;

  constructor(connection, key, { lockId, fence, expiresAtMs }) {
    this.#connection = connection;
    this.#key = key;
    Object.assign(this, { lockId, fence, expiresAtMs });
  }

  /** Rejects with LockLost if the lock was lost before. */
  release() {
    this.#released ??= this.#connection.call('lock.release', { lockId: this.lockId }).then(
      ({ ok }) => { if (!ok) throw this.#lost(); },
      (error) => { throw error instanceof Disconnected ? this.#lost(error) : error; });
    return this.#released;
  }
  [asyncDispose]() { return this.release(); }

  #lost(cause) { return new LockLost(`the lock "${this.#key}" was lost before its work was done`, { cause }); }
}

/** One connection until its end: what it holds is lost then. Holdfast makes a new one. */
class Connection {
  gone = null; // a Disconnected when it has ended
  stops = new Map(); // of jobs, by job id: an AbortController
  ended;
  #pending = new Map();
  #closing = false;
  #lastId = 0;
  #input;
  #output;
  #unsent = '';
  #onLost;
  #watchesJobs;

  /** `onLost`: gets what `lost` is emitted with. `reason`: resolves after the end with why it ended. */
  constructor({ input, output, reason = async () => 'the sidecar has gone' }, onLost) {
    this.#input = input;
    this.#output = output;
    this.#onLost = onLost;
    for (const stream of [input, output]) stream.on('error', () => {}); // the end of the input reports it
    let rest = '';
    input.setEncoding('utf8').on('data', (chunk) => {
      rest += chunk;
      if (!chunk.includes('\n')) return;
      const lines = rest.split('\n');
      rest = lines.pop();
      for (const line of lines) this.#take(line);
    });
    this.ended = new Promise((resolve) => input.once('end', resolve).once('close', resolve)).then(async () => {
      const why = this.gone ?? new Disconnected(await reason());
      this.gone = why;
      this.#rejectAll(why);
      for (const stop of this.stops.values()) stop.abort(new Error('disconnected'));
      this.#onLost({ reason: 'disconnected' });
    });
  }

  call(method, params, { signal } = {}) {
    if (this.gone) return Promise.reject(this.gone);
    if (signal?.aborted) return Promise.reject(signal.reason);
    const id = ++this.#lastId;
    let line;
    try {
      line = lineOf({ jsonrpc: '2.0', id, method, params });
    } catch (error) {
      return Promise.reject(error);
    }
    const cancel = () => this.#cancel(id);
    signal?.addEventListener('abort', cancel);
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { method, resolve, reject });
      this.#send(line);
    }).finally(() => signal?.removeEventListener('abort', cancel));
  }

  async watchJobs() {
    this.#watchesJobs ??= this.call('job.subscribe', {});
    await this.#watchesJobs;
  }

  stopOf(jobId) {
    // The notification may come before the answer that names the job.
    if (!this.stops.has(jobId)) this.stops.set(jobId, new AbortController());
    const stop = this.stops.get(jobId);
    if (this.gone) stop.abort(new Error('disconnected'));
    return stop;
  }

  async close() {
    if (!this.#closing) {
      this.#closing = true;
      // Otherwise the sidecar would wait for their ends, and hold all locks meanwhile.
      for (const [id, { method }] of this.#pending) if (waitingMethods.includes(method)) this.#cancel(id);
      this.#flush();
      this.#output.end();
    }
    await this.ended;
  }

  #cancel(id) { this.#send(lineOf({ jsonrpc: '2.0', method: '$/cancelRequest', params: { id } })); }

  #rejectAll(error) {
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
  }

  #send(line) {
    trace('->', line);
    // One write for all requests sent together, for example by callers that were answered together.
    if (this.#unsent === '') queueMicrotask(() => this.#flush());
    this.#unsent += line + '\n';
  }

  #flush() {
    const lines = this.#unsent;
    this.#unsent = '';
    if (lines !== '') this.#output.write(lines);
  }

  #take(line) {
    trace('<-', line);
    const message = JSON.parse(line);
    if (message.method === 'lock.lost') {
      this.#onLost(message.params);
      return;
    }
    if (message.method === 'job.stopped') {
      this.stopOf(message.params.jobId).abort(new Error(message.params.reason));
      return;
    }
    if (message.id === null) {
      // The sidecar could not parse a request, or has too many connections. It is unknown which request this was,
      // and the answers to the others would reach no caller. So close the connection.
      this.gone = new Disconnected('the sidecar has gone', { cause: new HoldfastError(message.error) });
      this.#rejectAll(this.gone.cause);
      this.#input.destroy();
      this.#output.destroy();
      return;
    }
    const waiting = this.#pending.get(message.id);
    this.#pending.delete(message.id);
    if (!message.error) return waiting?.resolve(message.result);
    const error = new HoldfastError(message.error);
    waiting?.reject(this.#closing && error.code === 'Aborted' ? new Disconnected('the client was closed') : error);
  }
}

/** Starts a sidecar: its streams, and why it ended. */
const startSidecar = (program, parameters) => {
  // Detached: Ctrl-C must reach only the program, which may have work to finish under its lock.
  const child = spawn(program, parameters, { stdio: ['pipe', 'pipe', 'pipe'], detached: true });
  let lastWords = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    process.stderr.write(text);
    lastWords = (lastWords + text).slice(-1000);
  });
  const ended = new Promise((resolve) => {
    child.once('error', ({ message }) => resolve(`cannot start ${program}: ${message}. Install it, or name the program`));
    child.once('close', (code, signal) => {
      const words = lastWords.trim().split('\n').slice(-5).join(' ');
      resolve('the sidecar has gone' + (code === 0 ? '' : ` (${signal ?? `exit code ${code}`}): ${words}`));
    });
  });
  return { input: child.stdout, output: child.stdin, reason: () => ended };
};

const connectTo = async (path) => {
  const socket = connect({ path, allowHalfOpen: true });
  try {
    await once(socket, 'connect');
  } catch ({ message }) {
    throw new Disconnected(`no sidecar on ${path}: ${message}. Start one: holdfast rpc --listen ${path}`);
  }
  return { input: socket, output: socket, reason: async () => `the sidecar on ${path} has gone` };
};

/**
 * Locks, tasks and queues through one connection at a time. The locks that it holds by lock.lock are released when the
 * connection ends, however it ends; so are its jobs. Emits `lost` with { lockId, keyHash, reason } when a renewed lock is
 * lost, and with { reason: 'disconnected' } when the sidecar is gone: then all of them are lost.
 *
 * After the connection has ended, the next request makes a new one; for a socket it tries for `reconnectMs`. Requests in
 * progress reject with Disconnected, and so do all if `reconnectMs` is 0. lock() alone continues to wait.
 */
export class Holdfast extends EventEmitter {
  #connection;
  #open; // makes the streams of a new connection
  #reconnectMs;
  #patient; // whether another process may start the sidecar
  #reconnecting = null;
  #closing = false;
  #subscribed = false;

  /** To the socket of a sidecar. Rejects with Disconnected if there is none. */
  static async connect(path, { reconnectMs = 10_000 } = {}) {
    const { input, output, reason } = await connectTo(path);
    return new Holdfast(input, output, { reason, open: () => connectTo(path), reconnectMs, patient: true });
  }

  /**
   * Starts a private sidecar. Name the store in the arguments or in $HOLDFAST_URL. If it cannot start, requests reject with
   * Disconnected, which has the reason.
   */
  static spawn(program = 'holdfast', parameters = ['rpc'], { reconnectMs = 10_000 } = {}) {
    const { input, output, reason } = startSidecar(program, parameters);
    return new Holdfast(input, output, { reason, open: async () => startSidecar(program, parameters), reconnectMs });
  }

  constructor(input, output, { reason, open, reconnectMs = 0, patient = false } = {}) {
    super();
    this.#open = open;
    this.#reconnectMs = reconnectMs;
    this.#patient = patient;
    this.#use({ input, output, reason });
    this.on('newListener', (event) => {
      if (event !== 'lost' || this.#subscribed) return;
      this.#subscribed = true;
      this.#subscribe();
    });
  }

  #use(streams) {
    this.#connection = new Connection(streams, (loss) => {
      if (!(this.#closing && loss.reason === 'disconnected')) this.emit('lost', loss);
    });
    if (this.#subscribed) this.#subscribe();
  }

  #subscribe() {
    this.#connection.call('lock.subscribe', {}).catch(() => {}); // the sidecar is gone: `lost` is emitted for that, too
  }

  /** The connection, or a promise of a new one if it has ended. */
  #connected() {
    if (!this.#connection.gone || this.#closing || this.#reconnectMs <= 0) return this.#connection;
    this.#reconnecting ??= this.#reconnect().finally(() => { this.#reconnecting = null; });
    return this.#reconnecting;
  }

  async #reconnect() {
    for (const giveUp = Date.now() + this.#reconnectMs; ; await sleep(100)) {
      try {
        this.#use(await this.#open());
        if (this.#closing) await this.#connection.close(); // meanwhile: this one must not outlive the client
        await this.#connection.call('holdfast.version', {}); // it may end at once: it cannot start, or is just stopping
        return this.#connection;
      } catch (error) {
        if (!this.#patient || Date.now() > giveUp || this.#closing) throw error;
      }
    }
  }

  /**
   * Resolves with the result. Rejects with HoldfastError, Disconnected, or RangeError for an invalid request. `signal`
   * cancels: the promise is still settled by the sidecar's answer, so that no lock stays held that no caller knows of.
   */
  async call(method, params = {}, how = {}) {
    const connection = this.#connected();
    return (connection instanceof Connection ? connection : await connection).call(method, params, how);
  }

  /**
   * Waits for the lock: resolves with a Lock, which is renewed until it is released. Options: ttlMs (30 000), waitMs
   * (5000), retries, maxHoldMs, holder. `signal` cancels the wait.
   */
  async lock(key, options = {}, how = {}) {
    const giveUp = Date.now() + (options.waitMs ?? 5000);
    for (let params = { key, ...options }; ; params = { ...params, waitMs: Math.max(0, giveUp - Date.now()) }) {
      const connection = await this.#connected();
      try {
        return new Lock(connection, key, await connection.call('lock.lock', params, how));
      } catch (error) {
        // A lock that a broken connection acquired is released with it, so the request can be repeated.
        const mayRepeat = error instanceof Disconnected && !this.#closing && this.#reconnectMs > 0;
        if (!mayRepeat || Date.now() > giveUp) throw error;
      }
    }
  }

  /**
   * Runs `work(lock)` under the lock and renews it meanwhile. Send its `fence` with every write. Rejects with
   * LockLost if the lock was lost before the work was done.
   */
  async withLock(key, options, work) {
    const lock = await this.lock(key, options);
    let result;
    try {
      result = await work(lock);
    } catch (error) {
      await lock.release().catch(() => {}); // the error of the work matters more
      throw error;
    }
    await lock.release();
    return result;
  }

  /**
   * Claims the next task of the first of these queues that has any: resolves with a Job, or with null. Options: waitMs
   * (0), leaseMs (30 000), worker.
   */
  async claim(queues, options = {}, how = {}) {
    const connection = await this.#connected();
    await connection.watchJobs();
    const { jobs } = await connection.call('queue.claimNext', { queues: [queues].flat(), ...options }, how);
    return jobs.length === 0 ? null : new Job(connection, jobs[0]);
  }

  /**
   * Works on the tasks of a queue, or of several in this order, until `signal` is aborted. Calls `work(job)` for each,
   * as many at a time as `concurrency` says. What it resolves with is the result. If it throws Failed, the task is
   * failed for good; after another error it is attempted again. With `untilEmpty`, resolves when there is no task to
   * claim.
   */
  async work(queues, work, { concurrency = 1, untilEmpty = false, signal, ...options } = {}) {
    let failed = false;
    const worker = async () => {
      let isLogged = false;
      while (!failed && !signal?.aborted) {
        let job;
        try {
          job = await this.claim(queues, { waitMs: untilEmpty ? 0 : 1000, ...options });
        } catch (error) {
          const reconnects = error instanceof Disconnected && this.#reconnectMs > 0 && !this.#closing;
          const outlives = error instanceof HoldfastError && transientCodes.includes(error.code) && !untilEmpty;
          if (!reconnects && !outlives) throw error;
          if (outlives && !isLogged) console.error(`the store does not answer; trying again: ${error.message}`);
          isLogged = outlives;
          await sleep(1000, undefined, { signal }).catch(() => {});
          if (reconnects) await this.#connected(); // rejects if there is no sidecar again
          continue;
        }
        isLogged = false;
        if (job) await this.#attempt(job, work);
        else if (untilEmpty) return;
      }
    };
    // The others finish their jobs first: none goes on after this one has rejected.
    const all = await Promise.allSettled(Array.from({ length: concurrency }, () => worker().catch((error) => {
      failed = true;
      throw error;
    })));
    const first = all.find(({ status }) => status === 'rejected');
    if (first) throw first.reason;
  }

  async #attempt(job, work) {
    let end;
    try {
      const result = await work(job);
      end = () => job.complete(result);
    } catch (error) {
      if (!(error instanceof Failed)) console.error(`attempt ${job.attempt} of ${job.taskId} failed:`, error);
      end = () => (error instanceof Failed ? job.fail(error.message) : job.retry(String(error)));
    }
    let isRetried = false;
    let pauseMs = 0;
    for (const giveUp = Date.now() + 60_000; ; await sleep(pauseMs)) {
      try {
        await end();
        return;
      } catch (error) {
        if (error instanceof Disconnected) {
          console.error(`the outcome of ${job.taskId} was not sent, so it is attempted again: ${error.message}`);
          return;
        }
        const isUnsendable = !(error instanceof HoldfastError); // it is not JSON: a BigInt, a cycle
        if (isUnsendable || unstorableCodes.includes(error.code)) {
          if (isRetried) throw error;
          // The attempt counts as failed: or the task would be worked on forever.
          isRetried = true;
          const why = `the outcome cannot be stored: ${String(error.message).slice(0, 1000)}`;
          console.error(`${job.taskId}: ${why}`);
          end = () => job.retry(why);
          continue;
        }
        pauseMs = 1000;
        // An outcome that was accepted is accepted again.
        if (transientCodes.includes(error.code) && Date.now() < giveUp) continue;
        // The task was cancelled or removed, or another worker has it: go on.
        console.error(`the outcome of ${job.taskId} was refused: ${error.message}`);
        // Otherwise its lease would be renewed as long as this connection lasts.
        if (!decidedCodes.includes(error.code)) await job.giveBack().catch(() => {});
        return;
      }
    }
  }

  async close() {
    this.#closing = true;
    await this.#connection.close();
    await this.#reconnecting?.catch(() => {});
  }
  [asyncDispose]() { return this.close(); }
}

async function show(holdfast) {
  console.log('version:', (await holdfast.call('holdfast.version')).version);

  await holdfast.withLock('example', { ttlMs: 10_000 }, async (lock) => {
    console.log('locked, with the fence', lock.fence);
    const callOff = new AbortController();
    const second = holdfast.call('lock.lock', { key: 'example', waitMs: 60_000 }, { signal: callOff.signal });
    if (!(await holdfast.call('lock.isLocked', { key: 'example' }))) throw new Error('it is not locked');
    callOff.abort();
    await second.catch((error) => console.log('the second one was called off:', error.code));
  });

  const task = await holdfast.call('task.create', { ownerId: 'node', requestMethod: 'report' });
  const me = { ownerId: 'node', taskId: task.task.taskId };
  const { lockId } = await holdfast.call('task.claim', me);
  await holdfast.call('task.setVariables', { ...me, variables: { rows: 42 }, lockId });
  await holdfast.call('task.complete', { ...me, result: { total: 42 }, lockId });
  await holdfast.call('lock.release', { lockId });
  console.log('the task is', (await holdfast.call('task.get', me)).task.status);
  console.log('its result:', JSON.stringify(await holdfast.call('task.getResult', me)));
  await holdfast.call('task.remove', me);
  await holdfast.call('task.get', me).catch((error) => console.log('and then:', error.code, error.number));

  await holdfast.call('queue.add', { queue: 'node', variables: { n: 21 } });
  await holdfast.work('node', async (job) => ({ twice: 2 * job.variables.n }), { untilEmpty: true });
  for (const done of (await holdfast.call('queue.listTasks', { queue: 'node', status: 'completed' })).tasks) {
    console.log("a worker's result:", JSON.stringify(done.result));
    await holdfast.call('queue.remove', { queue: 'node', taskId: done.task.taskId });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const holdfast = process.argv[2] ? await Holdfast.connect(process.argv[2]) : Holdfast.spawn();
  await show(holdfast);
  await holdfast.close();
}
