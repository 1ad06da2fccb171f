#!/usr/bin/env node
// Locks, tasks and queues for Node.js, through `holdfast rpc`. No packages: copy this file and use it.
//
//     import { Holdfast } from './holdfast_client.mjs';
//
//     const holdfast = await Holdfast.connect('/run/user/1000/holdfast.sock');  // or Holdfast.spawn()
//     await holdfast.withLock('nightly-backup', { waitMs: 60_000 }, async (lock, { signal }) => backup(lock.fence, signal));
//     { await using lock = await holdfast.lock('nightly-backup'); await backup(lock.fence); }  // the same, as a block
//     await holdfast.work('render', async (job) => render(job.variables), { concurrency: 4 });  // a pool of workers
//     await holdfast.close();
//
// Run it as a program for a demonstration:  holdfast_client.mjs [SOCKET]

import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { connect } from 'node:net';
import { uptime } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const longestLine = 16 * 1024 * 1024; // the sidecar's limit for one request
// The sidecar reads nothing while 64 requests of a connection are in progress. A few less, so that cancellations and
// questions about leases are always read.
const requestWindow = 60;

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

/** There is no sidecar; the message has the reason. The request was not sent. */
export class Disconnected extends Error {}

/** The sidecar ended before it answered: whether the request took effect is unknown. */
export class UnknownOutcome extends Disconnected {}

/** The lock was lost before the work was done; `reason` says why. Its fence keeps late writes out. */
export class LockLost extends Error {}

/** Thrown by the function of work(): the task cannot be done, and is not attempted again. */
export class Failed extends Error {}

// As String(error) and console.error show them.
for (const kind of [HoldfastError, Disconnected, UnknownOutcome, LockLost, Failed]) {
  Object.defineProperty(kind.prototype, 'name', { value: kind.name, configurable: true, writable: true });
}

/** The clock of leases in ms: unlike performance.now(), it advances while the machine is suspended. Steps of 10 ms. */
const clock = () => uptime() * 1000;
const clockStepMs = 10;

/**
 * What this client itself knows about a lock or job that the sidecar renews for it. Until `provenUntil` no other client can
 * get the lock. It counts from before a request was *sent*, so a sidecar that hangs cannot extend it. `notice` before
 * that, the lease counts as lost. The sidecar usually reports a loss first.
 */
class Lease {
  id = '';
  provenUntil = 0;
  atRisk = false;
  isEnding = false; // its release is on the way
  isAsking = false;
  askAt = 0;
  timer = null;
  #lost = new AbortController();

  constructor(kind, ttl, { noticeMs, maxHoldMs }, errorOf = (reason) => new Error(reason)) {
    this.kind = kind; // lock or job
    this.errorOf = errorOf;
    this.noticeMs = noticeMs;
    this.maxHoldMs = maxHoldMs;
    this.limit(ttl);
  }

  /** Sets how long it lasts unless it is renewed: an attempt may have a time limit that is shorter than its lease. */
  limit(ttl) {
    this.ttl = ttl;
    this.notice = Math.max(
      Math.min(this.noticeMs ?? Math.min(ttl / 6, (this.maxHoldMs || ttl) / 6, 5000), ttl / 3),
      Math.min(Math.max(ttl / 100, 1), 50));
  }
  get signal() { return this.#lost.signal; }
  /** How long it may go on as it is. */
  get leftMs() { return this.provenUntil - this.notice - clock() - clockStepMs; }
  /** When the lease has expired, nothing is left to be released. */
  get releaseTimeoutMs() { return Math.min(30_000, Math.max(1000, this.provenUntil - clock())); }
  lose(reason) {
    clearTimeout(this.timer);
    if (!this.signal.aborted) this.#lost.abort(this.errorOf(reason));
  }
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
  #lease;
  #ended = false;

  constructor(connection, { jobId, queue, taskId, attempt, fence, task }, lease) {
    this.#connection = connection;
    this.#jobId = jobId;
    this.#lease = lease;
    Object.assign(this, { queue, taskId, attempt, fence, task, signal: lease.signal });
  }

  /** Whether the last renewal of the lease failed or was not answered. It is not lost yet. */
  get atRisk() { return this.#lease.atRisk; }
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
    this.#lease.isEnding = true;
    try {
      const task = await this.#connection.call(method, { jobId: this.#jobId, ...params });
      this.#forget();
      return task;
    } catch (error) {
      this.#lease.isEnding = false;
      // After these the store has decided; after others the same call can be repeated.
      if (decidedCodes.includes(error.code) || method === 'job.giveBack') this.#forget();
      throw error;
    }
  }

  #forget() {
    this.#ended = true;
    this.#connection.unwatch(this.#lease);
  }
}

/**
 * A held lock, renewed until it is released: `lockId`, `fence`, `expiresAtMs`. Send its `fence` with every write. `signal`
 * is aborted with a LockLost when the lock is lost, before its lease can expire. The end of an `await using` block
 * releases it.
 */
export class Lock {
  #connection;
  #key;
  #lease;
  #released;

  constructor(connection, key, { lockId, fence, expiresAtMs }, lease) {
    this.#connection = connection;
    this.#key = key;
    this.#lease = lease;
    Object.assign(this, { lockId, fence, expiresAtMs, signal: lease.signal });
  }

  /** Whether the last renewal failed or was not answered. The lock is not lost yet. */
  get atRisk() { return this.#lease.atRisk; }
  /** For how many ms no other client can get the lock, as far as this client can prove. */
  get remainingMs() { return Math.max(0, this.#lease.provenUntil - clock() - clockStepMs); }

  /** Rejects with LockLost if the lock was lost before. */
  release() {
    this.#released ??= this.#release();
    return this.#released;
  }
  [asyncDispose]() { return this.release(); }

  async #release() {
    const timeout = new AbortController();
    const released = this.#connection.call('lock.release', { lockId: this.lockId });
    this.#lease.isEnding = true;
    try {
      const outcome = await Promise.race([
        released, sleep(this.#lease.releaseTimeoutMs, null, { signal: timeout.signal, ref: false })]);
      if (outcome === null) throw this.#lost(new Disconnected('the sidecar does not answer'));
      if (!outcome.ok) throw this.#lost();
    } catch (error) {
      throw error instanceof Disconnected ? this.#lost(error) : error;
    } finally {
      timeout.abort();
      released.catch(() => {}).finally(() => this.#connection.unwatch(this.#lease));
    }
  }

  #lost(cause) {
    const error = new LockLost(`the lock "${this.#key}" was lost before its work was done`, { cause });
    return Object.assign(error, { reason: this.signal.reason?.reason });
  }
}

/** One connection until its end: what it holds is lost then. Holdfast makes a new one. */
class Connection {
  gone = null; // why it has ended
  isOver = false; // the sidecar has gone; `gone` is set a moment later
  ended;
  #leases = new Map();
  #pending = new Map(); // sent
  #running = new Set(); // those of them that do not wait
  #queue = []; // not sent
  #urgent = [];
  #stoppedEarly = new Map(); // reasons that came before the answers with these ids
  #closing = false;
  #isBlocked = false;
  #isFlushing = false;
  #lastId = 0;
  #input;
  #output;
  #kill;
  #error;
  #onLost;

  /** `onLost`: gets what `lost` is emitted with. `reason`: resolves after the end with why it ended. */
  constructor({ input, output, reason = async () => 'the sidecar has gone', kill = () => {} }, onLost) {
    this.#input = input;
    this.#output = output;
    this.#kill = kill;
    // A listener that throws must not keep the lines after this one from being read.
    this.#onLost = (loss) => queueMicrotask(() => onLost(loss));
    for (const stream of [input, output]) stream.on('error', () => {}); // the end of the input reports it
    let parts = [];
    input.setEncoding('utf8').on('data', (chunk) => {
      const lines = chunk.split('\n');
      parts.push(lines[0]);
      if (lines.length === 1) return;
      lines[0] = parts.join('');
      parts = [lines.pop()];
      try {
        for (const line of lines) this.#take(line);
      } catch (error) { // not JSON, or an error without an id: no answer after this one can be trusted
        this.#error = error;
        this.#hangUp();
      }
    });
    output.on('drain', () => {
      this.#isBlocked = false;
      this.#flush();
    });
    for (const method of ['lock.subscribe', 'job.subscribe']) this.#notify(method, {});
    this.ended = new Promise((resolve) => input.once('end', resolve).once('close', resolve)).then(async () => {
      this.isOver = true;
      for (const lease of this.#leases.values()) lease.lose('disconnected');
      this.#onLost({ reason: 'disconnected' });
      this.#hangUp();
      this.gone = this.#error instanceof HoldfastError ? `the sidecar has gone: ${this.#error.message}` : await reason();
      for (const { reject } of this.#queue.splice(0)) reject(new Disconnected(this.gone));
      for (const { method, reject } of this.#pending.values()) {
        reject(new UnknownOutcome(`${this.gone}; whether ${method} took effect is unknown`, { cause: this.#error }));
      }
      this.#pending.clear();
    });
  }

  /** `lease`: that the answer grants. */
  call(method, params, { signal, lease } = {}) {
    if (this.gone || this.#closing) return Promise.reject(new Disconnected(this.gone ?? 'the client was closed'));
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
      this.#queue.push({ id, method, line, lease, resolve, reject });
      this.#flushSoon();
    }).finally(() => signal?.removeEventListener('abort', cancel));
  }

  unwatch(lease) {
    clearTimeout(lease.timer);
    if (this.#leases.get(lease.id) === lease) this.#leases.delete(lease.id);
  }

  /** Ends a sidecar that hangs after `closeMs`. */
  async close(closeMs) {
    if (!this.#closing) {
      this.#closing = true;
      this.#flush();
      for (const { reject } of this.#queue.splice(0)) reject(new Disconnected('the client was closed'));
      // Otherwise the sidecar would wait for their ends, and hold all locks meanwhile.
      for (const [id, { method }] of this.#pending) if (waitingMethods.includes(method)) this.#cancel(id);
      this.#isBlocked = false;
      this.#flush();
      this.#output.end();
    }
    const timer = setTimeout(() => {
      this.#kill();
      this.#input.destroy();
    }, closeMs);
    await this.ended;
    clearTimeout(timer);
  }

  #hangUp() {
    this.#input.destroy();
    this.#output.destroy();
  }

  #notify(method, params) {
    this.#urgent.push(lineOf({ jsonrpc: '2.0', method, params }));
    this.#flushSoon();
  }

  #cancel(id) {
    const unsent = this.#queue.findIndex((request) => request.id === id);
    if (unsent < 0) return this.#notify('$/cancelRequest', { id });
    const error = { code: -32603, message: 'the request was cancelled', data: { code: 'Aborted' } };
    this.#queue.splice(unsent, 1)[0].reject(new HoldfastError(error));
  }

  #flushSoon() {
    // One write for all requests sent together, for example by callers that were answered together.
    if (!this.#isFlushing) queueMicrotask(() => this.#flush());
    this.#isFlushing = true;
  }

  #flush() {
    this.#isFlushing = false;
    if (this.#isBlocked || this.isOver) return;
    const lines = this.#urgent.splice(0);
    let count = 0;
    for (const request of this.#queue) {
      if (this.#running.size >= requestWindow && !waitingMethods.includes(request.method)) break;
      this.#register(request);
      lines.push(request.line);
      count += 1;
    }
    this.#queue.splice(0, count);
    if (lines.length === 0) return;
    for (const line of lines) trace('->', line);
    this.#isBlocked = !this.#output.write(`${lines.join('\n')}\n`);
  }

  #register(request) {
    request.sentAt = clock();
    this.#pending.set(request.id, request);
    if (!waitingMethods.includes(request.method)) this.#running.add(request.id);
  }

  #take(line) {
    trace('<-', line);
    const message = JSON.parse(line);
    if (message.method !== undefined) return this.#takeNotification(message.method, message.params);
    // The sidecar could not parse a request, or has too many connections. It is unknown which request this was,
    // and the answers to the others would reach no caller. So close the connection.
    if (message.id === null) throw new HoldfastError(message.error);
    const request = this.#pending.get(message.id);
    if (!request) return;
    this.#pending.delete(message.id);
    if (this.#running.delete(message.id) && this.#queue.length > 0) this.#flushSoon();
    if (!message.error && request.lease) return void this.#grant(request, message.result).catch(request.reject);
    if (!message.error) return request.resolve(message.result);
    const error = new HoldfastError(message.error);
    request.reject(this.#closing && error.code === 'Aborted' ? new Disconnected('the client was closed') : error);
  }

  #takeNotification(method, params) {
    if (!['lock.lost', 'job.stopped', 'lock.atRisk', 'job.atRisk'].includes(method)) return; // of a later version
    const id = params.lockId ?? params.jobId;
    const lease = this.#leases.get(id);
    if (params.atRisk !== undefined) {
      if (lease) lease.atRisk = params.atRisk;
      return;
    }
    if (lease?.signal.aborted) return; // this client was faster
    if (lease) {
      lease.provenUntil = Math.min(lease.provenUntil, clock() + (params.remainingMs ?? Infinity));
      lease.lose(params.reason);
    } else {
      this.#stoppedEarly.set(id, params.reason);
    }
    if (method === 'lock.lost') this.#onLost(params);
  }

  async #grant({ lease, sentAt, resolve }, result) {
    const id = lease.kind === 'lock' ? result.lockId : result.jobs[0]?.jobId;
    if (id === undefined) return resolve(result);
    lease.id = id;
    const limitMs = result.jobs?.[0].task.queue?.attemptLimitMs;
    if (limitMs > 0 && limitMs < lease.ttl) lease.limit(limitMs);
    this.#leases.set(id, lease);
    lease.provenUntil = sentAt + lease.ttl - lease.ttl / 1000 - 1; // an allowance for clock drift
    if (this.#stoppedEarly.has(id)) lease.lose(this.#stoppedEarly.get(id));
    this.#stoppedEarly.delete(id);
    // If the request had to wait, the caller gets the lock when its lease is proven.
    if (lease.leftMs < lease.ttl / 6) await this.#ask(lease);
    this.#watch(lease);
    return resolve(result);
  }

  #watch(lease) {
    if (lease.signal.aborted || this.#leases.get(lease.id) !== lease) return;
    if (lease.leftMs <= 0) return this.#lose(lease, 'unproven');
    if (!lease.isAsking && clock() >= lease.askAt) {
      if (lease.askAt > 0) this.#ask(lease).catch(() => {}); // its end reports it
      lease.askAt = clock() + lease.ttl / 6;
    }
    // At most a second: this timer does not advance while the machine is suspended.
    lease.timer = setTimeout(() => this.#watch(lease), Math.min(lease.leftMs, lease.ttl / 6, 1000));
    lease.timer.unref();
  }

  /** Asks the sidecar how long the lease is proven. Rejects if there is no answer. */
  async #ask(lease) {
    lease.isAsking = true;
    const id = ++this.#lastId;
    const method = `${lease.kind}.remaining`;
    this.#urgent.push(lineOf({ jsonrpc: '2.0', id, method, params: { [`${lease.kind}Id`]: lease.id } }));
    const request = { id, method };
    const answer = new Promise((resolve, reject) => { Object.assign(request, { resolve, reject }); });
    this.#register(request);
    this.#flushSoon();
    try {
      const { ok, remainingMs } = await answer;
      if (lease.isEnding || lease.signal.aborted) return;
      if (ok) lease.provenUntil = request.sentAt + remainingMs;
      else this.#lose(lease, 'gone');
    } catch (error) {
      if (error instanceof Disconnected) throw error;
    } finally {
      lease.isAsking = false;
    }
  }

  #lose(lease, reason) {
    lease.lose(reason);
    if (lease.kind === 'lock') this.#onLost({ lockId: lease.id, reason });
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
  return { input: child.stdout, output: child.stdin, reason: () => ended, kill: () => child.kill('SIGKILL') };
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
 * connection ends, however it ends; so are its jobs. Emits `lost` with { lockId, reason } when a renewed lock is lost, and
 * with { reason: 'disconnected' } when the sidecar is gone: then all of them are lost. See also Lock.signal.
 *
 * After the connection has ended, the next request makes a new one; for a socket it tries for `reconnectMs`. Requests in
 * progress reject with UnknownOutcome. If `reconnectMs` is 0, all others reject with Disconnected. lock() alone continues
 * to wait. close() ends a sidecar that hangs after `closeMs` (30 000).
 */
export class Holdfast extends EventEmitter {
  #connection;
  #open; // makes the streams of a new connection
  #reconnectMs;
  #closeMs;
  #patient; // whether another process may start the sidecar
  #reconnecting = null;
  #closing = false;

  /** To the socket of a sidecar. Rejects with Disconnected if there is none. */
  static async connect(path, { reconnectMs = 10_000, closeMs } = {}) {
    const { input, output, ...streams } = await connectTo(path);
    const how = { open: () => connectTo(path), reconnectMs, closeMs, patient: true };
    return new Holdfast(input, output, { ...streams, ...how });
  }

  /**
   * Starts a private sidecar. Name the store in the arguments or in $HOLDFAST_URL. If it cannot start, requests reject with
   * Disconnected, which has the reason.
   */
  static spawn(program = 'holdfast', parameters = ['rpc'], { reconnectMs = 10_000, closeMs } = {}) {
    const { input, output, ...streams } = startSidecar(program, parameters);
    const how = { open: async () => startSidecar(program, parameters), reconnectMs, closeMs };
    return new Holdfast(input, output, { ...streams, ...how });
  }

  constructor(input, output, { reason, kill, open, reconnectMs = 0, closeMs = 30_000, patient = false } = {}) {
    super();
    this.#open = open;
    this.#reconnectMs = reconnectMs;
    this.#closeMs = closeMs;
    this.#patient = patient;
    this.#use({ input, output, reason, kill });
  }

  #use(streams) {
    this.#connection = new Connection(streams, (loss) => {
      if (!(this.#closing && loss.reason === 'disconnected')) this.emit('lost', loss);
    });
  }

  /** The connection, or a promise of a new one if it has ended. */
  #connected() {
    if (!this.#connection.isOver || this.#closing || this.#reconnectMs <= 0) return this.#connection;
    this.#reconnecting ??= this.#reconnect().finally(() => { this.#reconnecting = null; });
    return this.#reconnecting;
  }

  async #reconnect() {
    for (const giveUp = Date.now() + this.#reconnectMs; ; await sleep(100)) {
      try {
        this.#use(await this.#open());
        if (this.#closing) await this.#connection.close(this.#closeMs); // meanwhile: this one must not outlive the client
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
   * (5000), retries, maxHoldMs, noticeMs, holder. `signal` cancels the wait.
   */
  async lock(key, { signal, ...options } = {}, how = { signal }) {
    const giveUp = Date.now() + (options.waitMs ?? 5000);
    for (let params = { key, ...options }; ; params = { ...params, waitMs: Math.max(0, giveUp - Date.now()) }) {
      const connection = await this.#connected();
      const lease = new Lease('lock', options.ttlMs ?? 30_000, options, (reason) => (
        Object.assign(new LockLost(`the lock "${key}" was lost: ${reason}`), { reason })));
      try {
        const lock = new Lock(connection, key, await connection.call('lock.lock', params, { ...how, lease }), lease);
        if (!lock.signal.aborted) return lock;
        await lock.release().catch(() => {});
        throw lock.signal.reason; // lost before it could be used
      } catch (error) {
        // A lock that a broken connection acquired is released with it, so the request can be repeated.
        const mayRepeat = error instanceof Disconnected && !this.#closing && this.#reconnectMs > 0;
        if (!mayRepeat || Date.now() > giveUp) throw error;
      }
    }
  }

  /**
   * Runs `work(lock, { signal })` under the lock and renews it meanwhile. Send its `fence` with every write. The `signal`
   * of the work is aborted when the lock is lost; the one among the options cancels the wait. Rejects with LockLost if the
   * lock was lost before the work was done.
   */
  async withLock(key, options, work) {
    const lock = await this.lock(key, options);
    let result;
    try {
      options?.signal?.throwIfAborted(); // as the lock was acquired
      result = await work(lock, { signal: lock.signal });
    } catch (error) {
      await lock.release().catch(() => {}); // the error of the work matters more
      throw error;
    }
    await lock.release();
    return result;
  }

  /**
   * Claims the next task of the first of these queues that has any: resolves with a Job, or with null. Options: waitMs
   * (0), leaseMs (30 000), noticeMs, worker. `signal` cancels the wait.
   */
  async claim(queues, { signal, ...options } = {}, how = { signal }) {
    const connection = await this.#connected();
    const lease = new Lease('job', options.leaseMs ?? 30_000, options);
    const params = { queues: [queues].flat(), ...options };
    const { jobs } = await connection.call('queue.claimNext', params, { ...how, lease });
    return jobs.length === 0 ? null : new Job(connection, jobs[0], lease);
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
    await this.#connection.close(this.#closeMs);
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
