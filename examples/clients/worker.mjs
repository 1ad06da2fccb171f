#!/usr/bin/env node
// For transcript.sh: waits for the lock `report` and for the task, and finishes the other worker's task.
//
//     worker.mjs SOCKET TASK_ID

import { Holdfast } from './holdfast_client.mjs';

const holdfast = await Holdfast.connect(process.argv[2]);
const me = { ownerId: 'team', taskId: process.argv[3] };
await holdfast.withLock('report', { waitMs: 60_000 }, async (lock) => {
  console.log('node:   has the lock, with the fence', lock.fence);
  const claim = await holdfast.call('task.claim', { ...me, waitMs: 60_000 });
  console.log('node:   has the task, begun by', claim.task.variables.by);
  await holdfast.call('task.complete', { ...me, result: { by: 'node' }, lockId: claim.lockId });
});
console.log('node:   the lock that was only acquired is still held:', await holdfast.call('lock.isLocked', { key: 'plain' }));
await holdfast.close();
