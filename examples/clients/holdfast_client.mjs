#!/usr/bin/env node
// Locks and tasks for Node.js, through `holdfast rpc`. No packages: copy this file and use it.
//
//     import { Holdfast } from './holdfast_client.mjs';
//
//     const holdfast = await Holdfast.connect('/run/user/1000/holdfast.sock');  // or Holdfast.spawn()
//     await holdfast.withLock('nightly-backup', { waitMs: 60_000 }, async (lock) => backup(lock.fence));
//     await holdfast.close();
//
// Run it as a program for a demonstration:  holdfast_client.mjs [SOCKET]

import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';

const longestLine = 16 * 1024 * 1024; // the sidecar's limit for one request

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

/** The lock was lost before the work was done. Its fence keeps late writes out. */
export class LockLost extends Error {}

/**
 * One connection. The locks that it holds by lock.lock are released when it ends, however it ends. Emits `lost` with
 * { lockId, keyHash, reason } when a renewed lock is lost, and with { reason: 'disconnected' } when the sidecar is
 * gone: then all of them are lost.
 */
export class Holdfast extends EventEmitter {
  #pending = new Map();
  #lastId = 0;
  #input;
  #output;
  #unsent = '';
  #ended;
  #gone = false;
  #closing = false;
  #subscribed = false;

  static async connect(path) {
    const socket = connect({ path, allowHalfOpen: true });
    await once(socket, 'connect');
    return new Holdfast(socket, socket);
  }

  /** Starts a private sidecar. Name the store in the arguments or in $HOLDFAST_URL. */
  static spawn(program = 'holdfast', parameters = ['rpc']) {
    // Detached: Ctrl-C must reach only the program, which may have work to finish under its lock.
    const child = spawn(program, parameters, { stdio: ['pipe', 'pipe', 'inherit'], detached: true });
    child.on('error', () => {}); // the end of the input reports it
    return new Holdfast(child.stdout, child.stdin);
  }

  constructor(input, output) {
    super();
    this.#input = input;
    this.#output = output;
    for (const stream of [input, output]) stream.on('error', () => {}); // the end of the input reports it
    let rest = '';
    input.setEncoding('utf8').on('data', (chunk) => {
      rest += chunk;
      if (!chunk.includes('\n')) return;
      const lines = rest.split('\n');
      rest = lines.pop();
      for (const line of lines) this.#take(line);
    });
    this.#ended = new Promise((resolve) => input.once('end', resolve).once('close', resolve)).then(() => {
      this.#gone = true;
      this.#rejectAll(new Error('the sidecar has gone'));
      if (!this.#closing) this.emit('lost', { reason: 'disconnected' });
    });
    this.on('newListener', (event) => {
      if (event !== 'lost' || this.#subscribed) return;
      this.#subscribed = true;
      this.call('lock.subscribe').catch(() => {}); // the sidecar is gone: `lost` is emitted for that, too
    });
  }

  /** Resolves with the result. Rejects with HoldfastError, or RangeError for an invalid request. `signal` cancels. */
  async call(method, params = {}, { signal } = {}) {
    if (this.#gone) throw new Error('the sidecar has gone');
    if (signal?.aborted) throw signal.reason;
    const id = ++this.#lastId;
    const line = lineOf({ jsonrpc: '2.0', id, method, params });
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      this.#send(line);
      signal?.addEventListener('abort', () =>
        this.#send(lineOf({ jsonrpc: '2.0', method: '$/cancelRequest', params: { id } })));
    });
  }

  /**
   * Runs `work(lock)` under the lock and renews it meanwhile. Send its `fence` with every write. Rejects with
   * LockLost if the lock was lost before the work was done.
   */
  async withLock(key, options, work) {
    const lock = await this.call('lock.lock', { key, ...options });
    const release = () => this.call('lock.release', { lockId: lock.lockId });
    let result;
    try {
      result = await work(lock);
    } catch (error) {
      await release().catch(() => {}); // the error of the work matters more
      throw error;
    }
    const { ok } = await release();
    if (!ok) throw new LockLost(`the lock "${key}" was lost before its work was done`);
    return result;
  }

  async close() {
    this.#closing = true;
    this.#flush();
    this.#output.end();
    await this.#ended;
  }

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
      this.emit('lost', message.params);
      return;
    }
    if (message.id === null) {
      // The sidecar could not parse a request, or has too many connections. It is unknown which request this was,
      // and the answers to the others would reach no caller. So close the connection.
      this.#gone = true;
      this.#rejectAll(new HoldfastError(message.error));
      this.#input.destroy();
      this.#output.destroy();
      return;
    }
    const waiting = this.#pending.get(message.id);
    this.#pending.delete(message.id);
    if (message.error) waiting?.reject(new HoldfastError(message.error));
    else waiting?.resolve(message.result);
  }
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
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const holdfast = process.argv[2] ? await Holdfast.connect(process.argv[2]) : Holdfast.spawn();
  await show(holdfast);
  await holdfast.close();
}
