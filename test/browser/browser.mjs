// Drives Chromium by its DevTools protocol over a pipe: no package, no port.
import {spawn} from 'node:child_process';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage', '--remote-debugging-pipe'];

export class Browser {
  #process;
  #profile = mkdtempSync(join(tmpdir(), 'holdfast-browser-'));
  #pending = new Map();
  #listeners = [];
  #nextId = 1;
  #buffer = '';

  constructor(program) {
    this.#process = spawn(program, [...flags, `--user-data-dir=${this.#profile}`, 'about:blank'],
      {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']});
    this.#process.stdio[4].setEncoding('utf8').on('data', (text) => this.#receive(text));
  }

  #receive(text) {
    this.#buffer += text;
    const messages = this.#buffer.split('\0');
    this.#buffer = messages.pop();
    for (const message of messages.map((one) => JSON.parse(one))) {
      const waiting = this.#pending.get(message.id);
      if (waiting) {
        this.#pending.delete(message.id);
        if (message.error) waiting.reject(new Error(`${waiting.method}: ${message.error.message}`));
        else waiting.resolve(message.result);
      } else {
        for (const listener of this.#listeners) listener(message);
      }
    }
  }

  send(method, params = {}, sessionId = undefined) {
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, {resolve, reject, method});
      this.#process.stdio[3].write(JSON.stringify({id, method, params, sessionId}) + '\0');
    });
  }

  async newPage() {
    const {targetId} = await this.send('Target.createTarget', {url: 'about:blank'});
    const {sessionId} = await this.send('Target.attachToTarget', {targetId, flatten: true});
    const page = new Page(this, sessionId, targetId);
    this.#listeners.push((message) => { if (message.sessionId === sessionId) page.hear(message); });
    for (const domain of ['Page', 'Runtime', 'Log']) await page.send(`${domain}.enable`);
    return page;
  }

  async close() {
    const ended = new Promise((resolve) => this.#process.once('exit', resolve));
    const kill = setTimeout(() => this.#process.kill('SIGKILL'), 5000);
    this.send('Browser.close').catch(() => {});
    await ended;
    clearTimeout(kill);
    rmSync(this.#profile, {recursive: true, force: true, maxRetries: 10, retryDelay: 100});
  }
}

export class Page {
  /// Errors of scripts, violations of the content-security policy, dialogs that a script opened.
  problems = [];

  constructor(browser, session, target) {
    Object.assign(this, {browser, session, target});
  }
  close() { return this.browser.send('Target.closeTarget', {targetId: this.target}); }
  send(method, params) { return this.browser.send(method, params, this.session); }
  hear({method, params}) {
    if (method === 'Runtime.exceptionThrown') this.problems.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === 'Log.entryAdded' && params.entry.level === 'error' && params.entry.source !== 'network') this.problems.push(params.entry.text);
    if (method === 'Page.javascriptDialogOpening') {
      this.problems.push(`a dialog: ${params.message}`);
      this.send('Page.handleJavaScriptDialog', {accept: true});
    }
  }
  async run(expression) {
    const {result, exceptionDetails} = await this.send('Runtime.evaluate',
      {expression, awaitPromise: true, returnByValue: true, userGesture: true});
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }
  /// Waits until the expression is true, and returns how many milliseconds that took.
  async until(expression, patience = 15000) {
    const begin = performance.now();
    for (;;) {
      try {
        if (await this.run(expression)) return performance.now() - begin;
      } catch { /* the page is being loaded */ }
      if (performance.now() - begin > patience) {
        const text = await this.run('document.body.innerText').catch(() => '');
        throw new Error(`not true within ${patience} ms: ${expression}\nThe page:\n${text.slice(0, 2000)}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
  async open(url) {
    await this.send('Page.navigate', {url});
    await this.until(`document.readyState === 'complete' && location.href.startsWith(${JSON.stringify(url)})`);
  }
  async size(width, height, {mobile = false, dark = false} = {}) {
    await this.send('Emulation.setDeviceMetricsOverride', {width, height, deviceScaleFactor: 1, mobile});
    await this.send('Emulation.setEmulatedMedia', {features: [{name: 'prefers-color-scheme', value: dark ? 'dark' : 'light'}]});
  }
  async picture(file) {
    const {data} = await this.send('Page.captureScreenshot', {format: 'png'});
    writeFileSync(file, Buffer.from(data, 'base64'));
  }
  async press(key) {
    const code = key.length === 1 ? {text: key} : {};
    await this.send('Input.dispatchKeyEvent', {type: 'keyDown', key, ...code});
    await this.send('Input.dispatchKeyEvent', {type: 'keyUp', key});
  }
}
