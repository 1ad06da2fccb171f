'use strict';

// Text of users reaches the document as text nodes only (textContent); the content-security policy allows nothing else.

const $ = (id) => document.getElementById(id);
const rowsAtOnce = 200;
const keptEvents = 500;

const store = {locks: new Map(), tasks: new Map(), queues: new Map(), events: [], header: null, receivedAt: 0, leases: new Map()};
let about = {allowActions: false, showData: false};
let view = 'overview';
let limit = rowsAtOnce;
let source = null;
let lastSign = performance.now();
let connectedAt = performance.now();

/* ---- text ---- */

// Characters that are not seen, or that make other text look different: shown by their code.
const hidden = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const printable = (text) =>
  String(text ?? '').replace(hidden, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));

function el(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === 'text') element.textContent = printable(value);
    else if (name === 'class') element.className = value;
    else if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : printable(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function setText(element, text) {
  const shown = printable(text);
  if (element.textContent !== shown) element.textContent = shown;
}

function duration(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 10) return s.toFixed(1) + ' s';
  if (s < 120) return Math.round(s) + ' s';
  if (s < 7200) return Math.round(s / 60) + ' min';
  if (s < 172800) return Math.round(s / 3600) + ' h';
  return Math.round(s / 86400) + ' d';
}

const number = (value) => Number(value).toLocaleString('en');
const fence = (text) => (text ? text.replace(/^0+(?=.)/, '') : '');
const engineNow = () => (store.header ? store.header.nowMs + (performance.now() - store.receivedAt) : Date.now());
const dataAge = () =>
  store.header && store.header.whole ? store.header.ageMs + (performance.now() - store.receivedAt) : null;
const localTime = (ms) => (ms ? new Date(ms).toLocaleString() : 'unknown');

/* ---- data ---- */

const taskKey = (owner, id) => JSON.stringify([owner, id]);

function putLock(row) {
  const known = store.leases.get(row.key);
  // The length of a lease is not stored: it is what was left when the lease was granted or renewed.
  if (!known || known.fence !== row.fence) {
    store.leases.set(row.key, {fence: row.fence, expires: row.expiresAtMs, full: row.leaseMs || row.expiresAtMs - row.acquiredAtMs});
  } else if (known.expires !== row.expiresAtMs) {
    known.full = row.leaseMs || Math.max(1, row.expiresAtMs - engineNow());
    known.expires = row.expiresAtMs;
  }
  store.locks.set(row.key, row);
}

function receive(message, whole) {
  store.header = message.store;
  store.receivedAt = lastSign = performance.now();
  if (whole) {
    store.locks.clear();
    store.tasks.clear();
    store.queues.clear();
    for (const row of message.queues) store.queues.set(row.queue, row);
    for (const row of message.locks) putLock(row);
    for (const row of message.tasks) store.tasks.set(taskKey(row.owner, row.id), row);
    for (const key of store.leases.keys()) if (!store.locks.has(key)) store.leases.delete(key);
    store.events = message.events.slice(-keptEvents);
  } else {
    for (const key of message.locks.gone) {
      store.locks.delete(key);
      store.leases.delete(key);
    }
    for (const row of message.locks.set) putLock(row);
    for (const [owner, id] of message.tasks.gone) store.tasks.delete(taskKey(owner, id));
    for (const row of message.tasks.set) store.tasks.set(taskKey(row.owner, row.id), row);
    for (const name of message.queues.gone) store.queues.delete(name);
    for (const row of message.queues.set) store.queues.set(row.queue, row);
    store.events = store.events.concat(message.events).slice(-keptEvents);
  }
  scheduleRender();
}

function connect() {
  connectedAt = performance.now();
  source = new EventSource('/api/events');
  source.addEventListener('snapshot', (event) => receive(JSON.parse(event.data), true));
  source.addEventListener('changes', (event) => receive(JSON.parse(event.data), false));
  source.addEventListener('beat', () => { lastSign = performance.now(); });
  source.addEventListener('error', async () => {
    if (source.readyState !== EventSource.CLOSED) return;  // the browser connects again by itself
    const broken = source;
    try {
      const response = await fetch('/api/about');
      if (response.status === 401) location.reload();  // the session has ended: the server asks for the token
    } catch { /* not there now */ }
    setTimeout(() => { if (source === broken) connect(); }, 2000);
  });
}

async function call(path, body) {
  const options = body === undefined ? {} :
    {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body)};
  const response = await fetch(path, options);
  if (response.status === 401) location.reload();
  const answer = response.status === 204 ? {} : await response.json();
  if (!response.ok) throw new Error(answer.error ? answer.error.message : `the server answered ${response.status}`);
  return answer;
}

/* ---- rows ---- */

function bar(fraction, kind = '') {
  const fill = el('div');
  fill.style.width = `${Math.round(Math.min(1, Math.max(0, fraction)) * 1000) / 10}%`;
  return el('div', {class: `bar ${kind}`}, fill);
}

function leaseOf(row) {
  const left = row.expiresAtMs - engineNow();
  const lease = store.leases.get(row.key);
  return {left, fraction: lease ? left / lease.full : 0};
}

const lockRow = {
  id: (row) => row.key,
  make(row) {
    const parts = {
      key: el('div', {class: 'name mono'}), holder: el('div'), fence: el('div', {class: 'number mono'}),
      left: el('span'), bar: bar(0), waiters: el('div', {class: 'number'}),
    };
    const element = el('div', {class: 'row body', role: 'row', tabindex: '0', onclick: () => showLock(element.row)},
      parts.key, parts.holder, parts.fence, el('div', {}, parts.left, parts.bar), parts.waiters);
    element.parts = parts;
    this.update(element, row);
    return element;
  },
  update(element, row) {
    element.row = row;
    const {key, holder, fence: shownFence, waiters} = element.parts;
    setText(key, row.key);
    key.title = printable(row.key);
    setText(holder, row.holder || 'unknown holder');
    holder.title = printable(row.holder || '');
    setText(shownFence, fence(row.fence));
    setText(waiters, row.waiters === undefined ? '' : row.waiters ? `${row.waiters} waiting` : '');
    this.tick(element);
  },
  tick(element) {
    const {left, fraction} = leaseOf(element.row);
    setText(element.parts.left, left > 0 ? duration(left) : `expired ${duration(-left)} ago`);
    const shown = element.parts.bar;
    shown.className = 'bar' + (left <= 0 ? ' over' : fraction < 0.25 ? ' low' : '');
    shown.firstChild.style.width = `${Math.round(Math.min(1, Math.max(0, fraction)) * 1000) / 10}%`;
  },
};

const statusKind = {working: 'info', input_required: 'warn', completed: 'good', failed: 'bad', cancelled: ''};
const statusText = (status) => status.replace('_', ' ');

const taskRow = {
  id: (row) => taskKey(row.owner, row.id),
  make(row) {
    const parts = {
      name: el('div', {class: 'name'}), under: el('div', {class: 'under mono'}), status: el('span', {class: 'chip'}),
      text: el('div'), bar: bar(0), worker: el('div'), age: el('div', {class: 'number'}),
    };
    const element = el('div', {class: 'row body', role: 'row', tabindex: '0', onclick: () => openTask(element.row)},
      el('div', {}, parts.name, parts.under), el('div', {}, parts.status), el('div', {}, parts.text, parts.bar),
      parts.worker, parts.age);
    element.parts = parts;
    this.update(element, row);
    return element;
  },
  update(element, row) {
    element.row = row;
    const parts = element.parts;
    setText(parts.name, row.method || row.id);
    setText(parts.under, `${row.owner} · ${row.id}`);
    setText(parts.status, statusText(row.status));
    parts.status.className = `chip ${statusKind[row.status]}`;
    const percent = row.progress === undefined ? '' : `${Math.round(row.progress * 100)} %`;
    const text = [percent, row.progressText, row.message].filter(Boolean).join(' · ');
    setText(parts.text, text);
    parts.text.title = printable(text);
    parts.bar.hidden = row.progress === undefined;
    if (row.progress !== undefined) parts.bar.firstChild.style.width = `${row.progress * 100}%`;
    setText(parts.worker, row.worker || (row.hasWorker ? 'unnamed worker' : ''));
    parts.worker.title = printable(row.worker || '');
    this.tick(element);
  },
  tick(element) {
    setText(element.parts.age, element.row.createdAtMs ? duration(engineNow() - element.row.createdAtMs) : '');
  },
};

const queueRow = {
  id: (row) => row.queue,
  make(row) {
    const parts = {
      name: el('div', {class: 'name'}), state: el('span', {class: 'chip'}),
    };
    // A narrow page has no headings: the labels say what the numbers are.
    for (const label of ['ready', 'delayed', 'working', 'exhausted', 'failed', 'oldest']) {
      parts[label] = el('div', {class: 'number', 'data-label': label});
    }
    const element = el('div', {class: 'row body', role: 'row', tabindex: '0', onclick: () => openQueue(element.row)},
      parts.name, el('div', {}, parts.state), parts.ready, parts.delayed, parts.working, parts.exhausted, parts.failed, parts.oldest);
    element.parts = parts;
    this.update(element, row);
    return element;
  },
  update(element, row) {
    element.row = row;
    const parts = element.parts;
    setText(parts.name, row.queue);
    parts.name.title = printable(row.queue);
    // Tasks are ready, and none is worked on: probably no worker runs.
    const idle = !row.paused && row.ready > 0 && row.working === 0;
    setText(parts.state, row.paused ? 'paused' : idle ? 'no worker' : 'active');
    parts.state.className = `chip ${row.paused || idle ? 'warn' : ''}`;
    setText(parts.ready, number(row.ready));
    setText(parts.delayed, number(row.delayed));
    setText(parts.working, number(row.working) + (row.limit === undefined ? '' : ` of ${number(row.limit)}`));
    setText(parts.exhausted, number(row.exhausted));
    setText(parts.failed, number(row.dead));
    parts.failed.className = `number ${row.dead ? 'bad' : ''}`;
    this.tick(element);
  },
  tick(element) {
    const since = element.row.oldestReadyMs;
    setText(element.parts.oldest, since === undefined ? '–' : duration(engineNow() - since));
  },
};

const eventKinds = {
  lock_granted: ['granted', ''], lock_released: ['released', ''], lock_expired: ['expired, not released', 'bad'],
  lock_broken: ['broken', 'bad'], lock_ended: ['ended, not watched', ''], task_created: ['task created', ''], task_changed: ['task changed', 'info'],
  task_ended: ['task ended', 'good'], task_removed: ['task removed', ''], stale_write_refused: ['stale write refused', 'bad'],
  queue_paused: ['queue paused', 'warn'], queue_resumed: ['queue resumed', 'good'], queue_task_failed: ['task failed', 'bad'],
  queue_workers_died: ['workers died', 'warn'], store_unreachable: ['store unreachable', 'bad'], store_reachable: ['store is back', 'good'],
};

const eventRow = {
  id: (row) => row.sequence,
  make(row) {
    const [text, kind] = eventKinds[row.kind] || [row.kind, ''];
    const what = [
      row.key, [row.owner, row.taskId].filter(Boolean).join(' · '), row.status && statusText(row.status),
      row.holder && `by ${row.holder}`, row.fence && `fence ${fence(row.fence)}`,
      row.oldFence && `before it ${fence(row.oldFence)}`, row.text,
    ].filter(Boolean).join(' · ');
    const failed = row.status === 'failed' ? 'bad' : row.status === 'cancelled' ? '' : kind;
    return el('div', {class: 'row', role: 'row'},
      el('div', {class: 'mono', text: new Date(row.atMs).toTimeString().slice(0, 8)}),
      el('div', {}, el('span', {class: `chip ${failed}`, text})), el('div', {text: what, title: what}));
  },
  update() {},
  tick() {},
};

// One list: elements are kept by the row's id, so focus, scroll position and selection stay.
class List {
  constructor(kind, rowKind, heads, empty) {
    Object.assign(this, {rowKind, empty, elements: new Map()});
    this.body = el('div');
    this.more = el('div', {class: 'more'});
    const head = el('div', {class: 'row head', role: 'row'},
      ...heads.map(([text, shape]) => el('div', {text, class: shape || '', role: 'columnheader'})));
    this.element = el('div', {class: `table ${kind}`, role: 'table'}, head, this.body, this.more);
  }
  show(rows, maximum) {
    const shown = rows.slice(0, maximum);
    const wanted = new Set(shown.map(this.rowKind.id));
    for (const [id, element] of this.elements) {
      if (!wanted.has(id)) {
        element.remove();
        this.elements.delete(id);
      }
    }
    let place = this.body.firstChild;
    for (const row of shown) {
      const id = this.rowKind.id(row);
      let element = this.elements.get(id);
      if (!element) {
        element = this.rowKind.make(row);
        this.elements.set(id, element);
      } else if (element.row !== row) {
        this.rowKind.update(element, row);
      }
      if (element === place) place = place.nextSibling;
      else this.body.insertBefore(element, place);
    }
    const rest = rows.length - shown.length;
    this.more.hidden = shown.length > 0 && rest === 0;
    this.more.className = shown.length ? 'more' : 'empty';
    if (!shown.length) this.more.textContent = store.header ? this.empty() : 'Reading the store …';
    else if (rest && !this.fixed) {
      const button = el('button', {type: 'button', text: `Show ${Math.min(rest, rowsAtOnce)} more`, onclick: () => {
        limit += rowsAtOnce;
        render();
      }});
      this.more.replaceChildren(`${number(rest)} more. `, button);
    } else if (rest) this.more.textContent = `${number(rest)} more`;
  }
  tick() {
    for (const element of this.elements.values()) if (element.row) this.rowKind.tick(element);
  }
}

const lockHeads = [['Key'], ['Holder'], ['Fence', 'number'], ['Lease'], ['Waiters', 'number']];
const taskHeads = [['Task'], ['Status'], ['Progress'], ['Worker'], ['Age', 'number']];
const queueHeads = [['Queue'], ['State'], ['Ready', 'number'], ['Delayed', 'number'], ['Working', 'number'], ['Exhausted', 'number'], ['Failed', 'number'], ['Oldest ready', 'number']];
const eventHeads = [['Time'], ['Event'], ['What']];
const isFiltered = () => $('filter').value || (view === 'tasks' && $('status').value);
const lists = {
  locks: new List('locks', lockRow, lockHeads, () => (isFiltered() ? 'No lock matches.' : 'No lock is held.')),
  tasks: new List('tasks', taskRow, taskHeads, () => (store.header?.tasksRefused ? 'The user of this store may not read tasks.' : isFiltered() ? 'No task matches.' : 'There are no tasks.')),
  queues: new List('queues', queueRow, queueHeads, () => (isFiltered() ? 'No queue matches.' : 'There are no queues.')),
  events: new List('events', eventRow, eventHeads, () => (isFiltered() ? 'No event matches.' : 'Nothing has happened since this server began to watch.')),
  firstLocks: new List('locks', lockRow, lockHeads, () => 'No lock is held.'),
  firstEvents: new List('events', eventRow, eventHeads, () => 'Nothing has happened yet.'),
};
lists.firstLocks.fixed = lists.firstEvents.fixed = true;
lists.firstLocks.element.classList.add('short');

/* ---- views ---- */

const text = (...parts) => parts.filter(Boolean).join('\n').toLowerCase();
const matching = (rows, of) => {
  const wanted = $('filter').value.trim().toLowerCase();
  return wanted ? rows.filter((row) => of(row).includes(wanted)) : rows;
};
const byText = (left, right) => (left < right ? -1 : left > right ? 1 : 0);
const lockOrders = {
  key: ['Sort by key', (a, b) => byText(a.key, b.key)],
  held: ['Held longest first', (a, b) => a.acquiredAtMs - b.acquiredAtMs || byText(a.key, b.key)],
  expiry: ['Expires soonest first', (a, b) => a.expiresAtMs - b.expiresAtMs || byText(a.key, b.key)],
  waiters: ['Most waiters first', (a, b) => (b.waiters || 0) - (a.waiters || 0) || byText(a.key, b.key)],
};

const queueOrders = {
  name: ['Sort by name', (a, b) => byText(a.queue, b.queue)],
  ready: ['Most ready first', (a, b) => b.ready - a.ready || byText(a.queue, b.queue)],
  failed: ['Most failed first', (a, b) => b.dead - a.dead || byText(a.queue, b.queue)],
  oldest: ['Oldest first', (a, b) => (a.oldestReadyMs ?? Infinity) - (b.oldestReadyMs ?? Infinity) || byText(a.queue, b.queue)],
};

function setShown(shown, all, notShown, more = '') {
  const beyond = notShown ? `; ${number(notShown)} more are not listed` : '';
  setText($('shown'), (shown === all ? `${number(all)}` : `${number(shown)} of ${number(all)}`) + beyond + more);
}

/* ---- what needs attention ---- */

let diagnosis = [];  // the findings of doctor's last check
const doctorInterval = 5 * 60 * 1000;
const queueHash = (name) => `#queue/${encodeURIComponent(name)}`;
const sumOfQueues = (of) => [...store.queues.values()].reduce((sum, row) => sum + of(row), 0);
const tasksText = (count) => `${number(count)} ${count === 1 ? 'task' : 'tasks'}`;

// Shown on the overview, and counted in the title of the browser's tab.
function attention() {
  const items = diagnosis.filter((one) => one.severity === 'problem')
    .map((one) => ({kind: 'bad', label: 'problem', what: one.topic, text: one.found, href: '#doctor'}));
  for (const row of [...store.queues.values()].sort(queueOrders.name[1])) {
    const item = {what: row.queue, href: queueHash(row.queue)};
    if (row.dead) items.push({...item, kind: 'bad', label: 'failed', text: `${tasksText(row.dead)} failed`});
    if (row.paused) items.push({...item, kind: 'warn', label: 'paused', text: `${tasksText(row.ready)} ready`});
  }
  return items;
}

function setMark(element, count, what) {
  element.hidden = count === 0;
  setText(element, number(count));
  element.title = what;
}

function renderMarks(items) {
  const isDoctors = (item) => item.href === '#doctor';
  setMark($('mark-queues'), items.filter((item) => !isDoctors(item)).length, 'Queues with failed tasks, or paused');
  setMark($('mark-doctor'), items.filter(isDoctors).length, 'Problems that holdfast doctor has found');
  const title = `${items.length ? `(${items.length}) ` : ''}Holdfast: ${view}`;
  if (document.title !== title) document.title = title;
}

const figure = (label, value, href, kind = '') =>
  el(href ? 'a' : 'div', {class: `card ${kind}`, href}, el('div', {class: 'figure', text: value}), el('div', {class: 'label', text: label}));

const overview = {
  cards: el('div', {class: 'cards'}), attention: el('div', {class: 'table attention'}),
  attentionHead: el('h2', {text: 'Needs attention'}), element: null, text: '', attentionText: '',
};
overview.element = el('div', {}, overview.cards, overview.attentionHead, overview.attention, el('div', {class: 'columns'},
  el('div', {}, el('h2', {text: 'Locks held longest'}), lists.firstLocks.element),
  el('div', {}, el('h2', {text: 'Last events'}), lists.firstEvents.element)));

const views = {
  overview: {
    element: overview.element,
    render() {
      const header = store.header;
      const tasksKnown = header && !header.tasksRefused;
      const by = tasksKnown ? header.tasksByStatus : {};
      const waiting = [...store.locks.values()].reduce((sum, row) => sum + (row.waiters || 0), 0);
      const knowsWaiters = [...store.locks.values()].some((row) => row.waiters !== undefined);
      const figures = [
        ['Locks held', header ? number(header.locks) : '–', '#locks'],
        ...(knowsWaiters ? [['Waiters', number(waiting), '#locks']] : []),
        ['Tasks working', tasksKnown ? number(by.working) : '–', '#tasks'],
        ['Input required', tasksKnown ? number(by.input_required) : '–', '#tasks'],
        ['Tasks failed', tasksKnown ? number(by.failed) : '–', '#tasks', by.failed ? 'bad' : ''],
        ['Completed', tasksKnown ? number(by.completed) : '–', '#tasks'],
        ['Cancelled', tasksKnown ? number(by.cancelled) : '–', '#tasks'],
        ...(store.queues.size ? [['Ready in queues', number(sumOfQueues((row) => row.ready)), '#queues'],
          ['Failed in queues', number(sumOfQueues((row) => row.dead)), '#queues', sumOfQueues((row) => row.dead) ? 'bad' : '']] : []),
      ];
      const now = JSON.stringify(figures);
      if (now !== overview.text) {
        overview.text = now;
        overview.cards.replaceChildren(...figures.map((one) => figure(...one)));
      }
      const items = attention();
      overview.attentionHead.hidden = overview.attention.hidden = items.length === 0;
      if (JSON.stringify(items) !== overview.attentionText) {
        overview.attentionText = JSON.stringify(items);
        overview.attention.replaceChildren(...items.slice(0, rowsAtOnce).map((item) => el('a', {class: 'row', href: item.href},
          el('div', {}, el('span', {class: `chip ${item.kind}`, text: item.label})), el('div', {class: 'name', text: item.what, title: item.what}),
          el('div', {text: item.text, title: item.text}))));
      }
      lists.firstLocks.show([...store.locks.values()].sort(lockOrders.held[1]), 8);
      lists.firstEvents.show([...store.events].reverse(), 12);
    },
    tick() { lists.firstLocks.tick(); },
  },
  locks: {
    element: lists.locks.element,
    options: Object.entries(lockOrders).map(([value, [label]]) => [value, label]),
    render() {
      const all = [...store.locks.values()];
      const rows = matching(all, (row) => text(row.key, row.holder)).sort(lockOrders[$('status').value || 'key'][1]);
      lists.locks.show(rows, limit);
      setShown(rows.length, all.length, store.header ? store.header.locksNotShown : 0);
    },
    tick() { lists.locks.tick(); },
  },
  tasks: {
    element: lists.tasks.element,
    options: [['', 'All statuses'], ...Object.keys(statusKind).map((status) => [status, statusText(status)])],
    render() {
      const all = [...store.tasks.values()];
      const status = $('status').value;
      const rows = matching(all, (row) => text(row.owner, row.id, row.method, row.message, row.worker, row.progressText))
        .filter((row) => !status || row.status === status)
        .sort((a, b) => b.createdAtMs - a.createdAtMs || byText(a.id, b.id));
      lists.tasks.show(rows, limit);
      // They have no owner, and are listed by queue.
      const failed = !status || status === 'failed' ? sumOfQueues((row) => row.dead) : 0;
      setShown(rows.length, all.length, store.header ? store.header.tasksNotShown : 0,
        failed ? `; of queues: ${tasksText(failed)} failed, see Queues` : '');
    },
    tick() { lists.tasks.tick(); },
  },
  queues: {
    element: lists.queues.element,
    options: Object.entries(queueOrders).map(([value, [label]]) => [value, label]),
    render() {
      const all = [...store.queues.values()];
      const rows = matching(all, (row) => text(row.queue)).sort(queueOrders[$('status').value || 'name'][1]);
      lists.queues.show(rows, limit);
      setShown(rows.length, all.length, store.header ? store.header.queuesNotShown : 0);
    },
    tick() { lists.queues.tick(); },
  },
  events: {
    element: lists.events.element,
    render() {
      const rows = matching([...store.events].reverse(),
        (row) => text(row.kind, (eventKinds[row.kind] || [''])[0], row.key, row.owner, row.taskId, row.holder, row.text, row.status));
      lists.events.show(rows, limit);
      setShown(rows.length, store.events.length, 0);
    },
    tick() {},
  },
  doctor: {
    element: el('div', {}, el('div', {class: 'buttons'}, el('button', {type: 'button', text: 'Check again', onclick: () => diagnose()})),
      el('div', {id: 'findings'})),
    render() {},
    tick() {},
    open: () => diagnose(),
  },
};

let diagnosing = false;
async function diagnose() {
  if (diagnosing) return;
  diagnosing = true;
  const place = views.doctor.element.querySelector('#findings');
  place.replaceChildren(el('p', {class: 'hint', text: 'Checking the store …'}));
  const kinds = {ok: 'good', note: 'info', warning: 'warn', problem: 'bad'};
  try {
    const {atMs, findings} = await call('/api/doctor');
    diagnosis = findings;
    renderMarks(attention());
    place.replaceChildren(
      el('p', {class: 'hint', text: `Checked at ${localTime(atMs)}.`}),
      el('div', {class: 'table'}, ...findings.map((one) => el('div', {class: 'finding'},
        el('div', {}, el('span', {class: `chip ${kinds[one.severity] || ''}`, text: one.severity})),
        el('div', {}, el('strong', {text: one.topic}), ' ', el('span', {text: one.found})),
        one.advice ? el('div', {class: 'advice', text: one.advice}) : null))));
  } catch (error) {
    place.replaceChildren(el('p', {class: 'problem', text: `The check failed: ${error.message}`}));
  }
  diagnosing = false;
}

// For the marks: without a word, and whatever is shown.
async function checkQuietly() {
  try {
    diagnosis = (await call('/api/doctor')).findings;
    scheduleRender();
  } catch { /* the store, or this server, is not there: the state of the page says so */ }
}

/* ---- details and actions ---- */

const dialog = $('dialog');
const terms = (pairs) => el('dl', {}, ...pairs.filter(([, value]) => value !== undefined && value !== '' && value !== null)
  .flatMap(([name, value]) => [el('dt', {text: name}), el('dd', {text: value})]));

function openDialog(...children) {
  dialog.replaceChildren(...children);
  if (!dialog.open) dialog.showModal();
}

const closeButton = () => el('button', {type: 'button', text: 'Close', onclick: () => dialog.close()});

// Asks for a reason, and carries out only what was shown.
function actionForm(title, what, button, carryOut) {
  const reason = el('input', {id: 'reason', required: true, maxlength: '200', autocomplete: 'off'});
  const problem = el('p', {class: 'problem', role: 'alert'});
  const submit = el('button', {class: 'danger', type: 'submit', text: button});
  const form = el('form', {class: 'form', onsubmit: async (event) => {
    event.preventDefault();
    submit.disabled = true;
    problem.textContent = '';
    try {
      await carryOut(reason.value.trim());
      dialog.close();
    } catch (error) {
      setText(problem, error.message);
      submit.disabled = false;
    }
  }}, el('h2', {text: title}), el('p', {text: what}), el('label', {for: 'reason', text: 'Reason (it is logged)'}), reason, problem,
  el('div', {class: 'buttons'}, closeButton(), submit));
  openDialog(form);
  reason.focus();
}

function showLock(row) {
  const buttons = el('div', {class: 'buttons'}, closeButton());
  if (about.allowActions) {
    buttons.prepend(el('button', {type: 'button', class: 'danger', text: 'Break …', onclick: () => actionForm(
      'Break this lock?',
      `“${printable(row.key)}”, fence ${fence(row.fence)}, held by ${row.holder || 'an unknown holder'}. It is free at once. ` +
      'Its holder may continue until it notices: only fence checks reject its writes.',
      'Break the lock', (reason) => call('/api/locks/break', {key: row.key, fence: row.fence, reason}))}));
  }
  openDialog(el('h2', {text: row.key, class: 'mono'}), terms([
    ['Holder', row.holder || 'not known'], ['Fence', fence(row.fence)], ['Held for', duration(engineNow() - row.acquiredAtMs)],
    ['Acquired', localTime(row.acquiredAtMs)], ['Lease expires', localTime(row.expiresAtMs)],
    ['Waiters', row.waiters === undefined ? 'not known' : row.waiters],
  ]), buttons);
}

function openTask(row) {
  location.hash = `#task/${encodeURIComponent(row.owner)}/${encodeURIComponent(row.id)}`;
}

function openQueue(row) {
  location.hash = queueHash(row.queue);
}

// The status of a task that is not finished is "working" wherever it is in its queue: its place says more.
function placeChip(task) {
  const isFinal = ['completed', 'failed', 'cancelled'].includes(task.status);
  if (isFinal || task.place === undefined) return el('span', {class: `chip ${statusKind[task.status]}`, text: statusText(task.status)});
  const kinds = {leased: 'info', exhausted: 'bad'};
  return el('span', {class: `chip ${kinds[task.place] || ''}`, text: task.place === 'leased' ? 'working' : task.place});
}

// The tasks of a queue, of one status or all, a page at a time.
function queueTasks(name, status, empty) {
  const list = el('div', {class: 'table queue-tasks'});
  const more = el('div', {class: 'more'});
  const add = async (cursor) => {
    const query = Object.entries({name, status, cursor}).filter(([, value]) => value)
      .map(([parameter, value]) => `${parameter}=${encodeURIComponent(value)}`).join('&');
    const answer = await call(`/api/queue?${query}`);
    for (const task of answer.tasks) {
      const at = task.place === 'leased' ? `by ${task.worker || 'an unnamed worker'}, for ${duration(engineNow() - task.claimedAtMs)}` :
        task.place === 'delayed' ? `due in ${duration(task.dueAtMs - engineNow())}` : '';
      const what = [at, task.message].filter(Boolean).join(' · ');
      list.append(el('div', {class: 'row', role: 'row'},
        el('div', {}, el('div', {class: 'name', text: task.method || task.id}), el('div', {class: 'under mono', text: task.id})),
        el('div', {}, placeChip(task)),
        el('div', {text: what, title: what}),
        el('div', {class: 'number', text: task.attempts === undefined ? '' : `${task.attempts} of ${task.maxAttempts} attempts` + (task.deaths ? `, ${task.deaths} died` : '')})));
    }
    if (answer.cursor) {
      more.replaceChildren(el('button', {type: 'button', text: 'Show more', onclick: () => add(answer.cursor).catch((error) => setText(more, error.message))}));
    } else setText(more, list.firstChild ? '' : empty);
    more.hidden = !more.firstChild;
    return answer.queue;
  };
  return {elements: [list, more], load: () => add('')};
}

async function showQueue(name) {
  openDialog(el('h2', {text: name}), el('p', {class: 'hint', text: 'Reading …'}), el('div', {class: 'buttons'}, closeButton()));
  const all = queueTasks(name, '', 'The queue has no tasks.');
  const failed = queueTasks(name, 'failed', 'None has failed.');
  let counts;
  try {
    counts = await all.load();
    if (counts.dead) await failed.load();
  } catch (error) {
    openDialog(el('h2', {text: name}), el('p', {class: 'problem', text: error.message}), el('div', {class: 'buttons'}, closeButton()));
    return;
  }
  openDialog(el('h2', {text: name}), terms([
    ['State', counts.paused ? 'paused: no task is claimed' : 'active'], ['Ready', number(counts.ready)],
    ['Oldest ready', counts.oldestReadyMs ? `for ${duration(engineNow() - counts.oldestReadyMs)}` : 'none'],
    ['Delayed', number(counts.delayed)], ['Working', number(counts.working) + (counts.limit === undefined ? '' : ` of at most ${number(counts.limit)}`)],
    ['Parked', number(counts.parked)], ['Workers died', number(counts.expired)], ['Exhausted', number(counts.exhausted)], ['Failed', number(counts.dead)],
    ['All tasks', `${number(counts.tasks)}, finished ones included`],
  ]), ...(counts.dead ? [el('h2', {text: 'Failed tasks, the last first'}), ...failed.elements] : []),
  el('h2', {text: 'Tasks, newest first'}), ...all.elements, el('div', {class: 'buttons'}, closeButton()));
}

async function showTask(owner, id) {
  openDialog(el('h2', {text: 'Task'}), el('p', {class: 'hint', text: 'Reading …'}), el('div', {class: 'buttons'}, closeButton()));
  let details;
  try {
    details = await call(`/api/task?owner=${encodeURIComponent(owner)}&id=${encodeURIComponent(id)}`);
  } catch (error) {
    openDialog(el('h2', {text: 'Task'}), el('p', {class: 'problem', text: error.message}), el('div', {class: 'buttons'}, closeButton()));
    return;
  }
  const {task, guard, lock} = details;
  const buttons = el('div', {class: 'buttons'}, closeButton());
  const isFinal = ['completed', 'failed', 'cancelled'].includes(task.status);
  const what = `“${printable(task.method || task.id)}” of ${printable(task.owner)}, ${statusText(task.status)}.`;
  if (about.allowActions) {
    buttons.prepend(el('button', {type: 'button', class: 'danger', text: 'Remove …', onclick: () => actionForm(
      'Remove this task?', `${what} Its variables and its result are deleted.`, 'Remove the task',
      (reason) => call('/api/tasks/remove', {owner, id, incarnation: task.incarnation, reason}))}));
    if (!isFinal) {
      buttons.prepend(el('button', {type: 'button', class: 'danger', text: 'Cancel …', onclick: () => actionForm(
        'Cancel this task?', `${what} The reason becomes its message.`, 'Cancel the task',
        (reason) => call('/api/tasks/cancel', {owner, id, incarnation: task.incarnation, reason}))}));
    }
  }
  const data = details.dataShown ?
    [el('h2', {text: 'Variables'}), el('pre', {}, printableJson(details.variables)), el('h2', {text: 'Result'}), el('pre', {}, printableJson(details.result))] :
    [el('p', {class: 'hint', text: 'Variables and result are hidden: this server runs without --show-data.'})];
  const attempts = details.events.length ?
    [el('h2', {text: 'Last attempts and changes'}), el('div', {class: 'table events'}, ...details.events.slice(-12).reverse().map((event) => eventRow.make(event)))] : [];
  openDialog(el('h2', {text: task.method || 'Task'}), terms([
    ['Owner', task.owner], ['Id', task.id], ['Status', statusText(task.status)], ['Message', task.message],
    ['Progress', [task.progress === undefined ? '' : `${Math.round(task.progress * 100)} %`, task.progressText].filter(Boolean).join(' · ')],
    ['Worker', lock ? lock.holder || 'unnamed' : 'none now'],
    ['Worker’s lease', lock ? `${duration(lock.expiresAtMs - engineNow())} left, fence ${fence(lock.fence)}` : ''],
    ['Highest fence', guard ? `${fence(guard.fence)} of ${guard.key}` : 'not guarded by a lock'],
    ['Created', localTime(task.createdAtMs)], ['Updated', localTime(task.updatedAtMs)],
    ['Expires', task.expiresAtMs ? localTime(task.expiresAtMs) : 'never'], ['Version', task.version],
  ]), ...data, ...attempts, buttons);
}

const printableJson = (value) =>
  JSON.stringify(value, null, 2).replace(hidden, (c) => (c === '\n' ? c : '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0')));

dialog.addEventListener('close', () => {
  if (location.hash.startsWith('#task/') || location.hash.startsWith('#queue/')) location.hash = `#${view}`;
});

/* ---- frame ---- */

let scheduled = false;
function scheduleRender() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    render();
  });
}

function render() {
  const header = store.header;
  setText($('count-locks'), header ? number(header.locks) : '');
  setText($('count-tasks'), header && !header.tasksRefused ? number(header.tasks) : '');
  setText($('count-queues'), header && header.queues !== undefined ? number(header.queues) : '');
  setText($('count-events'), store.events.length ? number(store.events.length) : '');
  views[view].render();
  renderMarks(attention());
  renderState();
}

function renderState() {
  const header = store.header;
  const silent = performance.now() - lastSign;
  const age = dataAge();
  let kind = 'good';
  let line = '';
  let banner = '';
  if (silent > 5000) {
    kind = 'bad';
    line = 'not connected';
    banner = `No news from this server for ${duration(silent)}; what you see is old. Connecting again …`;
  } else if (!header) {
    kind = 'warn';
    line = 'connecting';
  } else if (header.reachability === 'down') {
    kind = 'bad';
    line = 'store unreachable';
    banner = `The store has not answered for ${duration(header.downForMs + performance.now() - store.receivedAt)}; what you see is old. ${header.error}`;
  } else if (!header.whole) {
    kind = 'warn';
    line = 'reading the store';
  } else {
    kind = age > 10000 ? 'warn' : 'good';
    line = `live, data ${duration(Math.round(age / 500) * 500)} old`;
  }
  $('state').className = `state ${kind}`;
  setText($('state-text'), line);
  $('banner').hidden = !banner;
  if (banner) setText($('banner'), banner);
}

function route() {
  const hash = location.hash.slice(1);
  const task = /^task\/([^/]+)\/([^/]+)$/.exec(hash);
  if (task) {
    if (view === 'overview') show('tasks');
    showTask(decodeURIComponent(task[1]), decodeURIComponent(task[2]));
    return;
  }
  const queue = /^queue\/([^/]+)$/.exec(hash);
  if (queue) {
    if (view === 'overview') show('queues');
    showQueue(decodeURIComponent(queue[1]));
    return;
  }
  show(views[hash] ? hash : 'overview');
}

function show(name) {
  const changed = name !== view || !$('view').firstChild;
  view = name;
  if (changed) {
    limit = rowsAtOnce;
    $('filter').value = '';
    const options = views[view].options;
    $('status').hidden = !options;
    $('status').replaceChildren(...(options || []).map(([value, label]) => el('option', {value, text: label})));
    $('filter-bar').hidden = view === 'overview' || view === 'doctor';
    $('view').replaceChildren(views[view].element);
    for (const link of document.querySelectorAll('nav a')) {
      if (link.dataset.view === view) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    if (views[view].open) views[view].open();
  }
  render();
}

function switchTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === 'dark';
  const theme = dark ? 'light' : 'dark';
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem('theme', theme); } catch { /* not kept, then */ }
}

function moveFocus(step) {
  const rows = [...document.querySelectorAll('#view .row.body')];
  if (!rows.length) return;
  const now = rows.indexOf(document.activeElement);
  rows[Math.min(rows.length - 1, Math.max(0, now < 0 ? 0 : now + step))].focus();
}

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches('input, select, textarea');
  if (event.key === 'Escape' && event.target === $('filter')) {
    $('filter').value = '';
    $('filter').blur();
    render();
    return;
  }
  if (typing || dialog.open || $('help').open) return;
  const names = ['overview', 'locks', 'tasks', 'queues', 'events', 'doctor'];
  if (/^[1-6]$/.test(event.key)) location.hash = `#${names[event.key - 1]}`;
  else if (event.key === '/') {
    if ($('filter-bar').hidden) location.hash = '#locks';
    setTimeout(() => $('filter').focus());
  } else if (event.key === 'j' || event.key === 'ArrowDown' && event.target.matches('.row')) moveFocus(1);
  else if (event.key === 'k' || event.key === 'ArrowUp' && event.target.matches('.row')) moveFocus(-1);
  else if (event.key === 'Enter' && event.target.matches('.row.body')) event.target.click();
  else if (event.key === 'd') switchTheme();
  else if (event.key === '?') $('help').showModal();
  else return;
  event.preventDefault();
});

$('filter').addEventListener('input', () => { limit = rowsAtOnce; render(); });
$('status').addEventListener('change', () => { limit = rowsAtOnce; render(); });
$('theme').addEventListener('click', switchTheme);
$('help-button').addEventListener('click', () => $('help').showModal());
$('logout').addEventListener('click', async () => {
  try { await call('/logout', {}); } finally { location.reload(); }
});
window.addEventListener('hashchange', route);
setInterval(() => {
  // A connection that dies without a word is no error to the browser. The server sends something every 2 s.
  if (performance.now() - Math.max(lastSign, connectedAt) > 10000) {
    source.close();
    connect();
  }
  views[view].tick();
  renderState();
}, 250);

try {
  const theme = localStorage.getItem('theme');
  if (theme) document.documentElement.dataset.theme = theme;
} catch { /* storage is off */ }

call('/api/about').then((answer) => {
  about = answer;
  setText($('store'), answer.url);
  $('logout').hidden = !answer.hasSession;
}).catch(() => {});
connect();
route();
checkQuietly();
setInterval(checkQuietly, doctorInterval);
