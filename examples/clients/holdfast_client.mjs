#!/usr/bin/env node
// Locks and tasks for Node.js, through `holdfast rpc`. No packages: copy this file and use it.
//
//     import { Holdfast } from './holdfast_client.mjs';
//
//     const holdfast = await Holdfast.connect('/run/user/1000/holdfast.sock');  // or Holdfast.spawn()
//     await holdfast.withLock('nightly-backup', { waitMs: 60_000 }, async (lock) => backup(lock.fence));
//     await holdfast.close();
//
// As a program it shows what it can do:  holdfast_client.mjs [SOCKET]

import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';

const longestLine = 16 * 1024 * 1024; // that the sidecar takes

const trace = (direction, line) => {
  if (process.env.HOLDFAST_TRACE) console.error(`node   ${direction} ${line}`);
};

/** Throws RangeError for what the sidecar could not make out: half of a surrogate pair, or too long a line. */
const lineOf = (message) => {
  const line = JSON.stringify(message);
  // Of surrogates it escapes those without their other half, and a backslash of the text by another.
  const half = line.includes('\\ud') && /(?<!\\)(?:\\\\)*(\\ud[89a-f]..)/.exec(line);
  if (half) throw new RangeError(`no Unicode text: it contains ${half[1]}, half of a surrogate pair`);
  if (line.length * 3 > longestLine && Buffer.byteLength(line) > longestLine) {
    throw new RangeError(`the request is longer than ${longestLine} bytes`);
  }
  return line;
};

/** What a request was refused with: `code` is the name of the error (NotFound), `number` JSON-RPC's. */
export class HoldfastError extends Error {
  constructor(error) {
    super(error.message);
    this.number = error.code;
    this.code = error.data?.code;
  }
}

/** The lock was somebody else's, or nobody's, before the work was done. Its fence keeps late writes out. */
export class LockLost extends Error {}

/**
 * One connection. What it holds by lock.lock is released when it ends, however. Emits `lost` when a renewed lock is
 * lost, with { lockId, keyHash, reason }, and when the sidecar has gone, and all of them with it, with
 * { reason: 'disconnected' }.
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

  /** A sidecar of its own; name the backend in the arguments or in $HOLDFAST_URL. */
  static spawn(program = 'holdfast', parameters = ['rpc']) {
    // Detached: a Ctrl-C is for the program, which may have work to finish under its lock.
    const child = spawn(program, parameters, { stdio: ['pipe', 'pipe', 'inherit'], detached: true });
    child.on('error', () => {}); // the end of the input tells
    return new Holdfast(child.stdout, child.stdin);
  }

  constructor(input, output) {
    super();
    this.#input = input;
    this.#output = output;
    for (const stream of [input, output]) stream.on('error', () => {}); // the end of the input tells
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
      this.call('lock.subscribe').catch(() => {}); // it has gone, which is told as well
    });
  }

  /** The result; rejects with HoldfastError, or RangeError for what cannot be sent. An AbortSignal calls off what waits. */
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
   * Runs `work(lock)` under the lock, which is renewed meanwhile. Pass its `fence` along with writes. Rejects with
   * LockLost if the lock was lost before the work was done.
   */
  async withLock(key, options, work) {
    const lock = await this.call('lock.lock', { key, ...options });
    const release = () => this.call('lock.release', { lockId: lock.lockId });
    let result;
    try {
      result = await work(lock);
    } catch (error) {
      await release().catch(() => {}); // what went wrong in the work says more
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
    // One write for all that is sent in one go, as by many callers that were answered together.
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
      // It could not make out a request (or this is a connection too many). Nobody can tell which, and whatever
      // else is under way would be answered to nobody: so it has to know that nobody is there.
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
