import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { closings, socketLimits } from '@oselya/protocol';
import { reconnectDelayMs } from '@oselya/chat-client';

const page = await readFile(new URL('../../../../docs/protocol.md', import.meta.url), 'utf8');

/** The first column of the rows of a section's tables, without what stands around the names. */
function names(heading: string): string[] {
  const [, section = ''] = page.split(new RegExp(`^## ${heading}.*$`, 'm'));
  const [own = ''] = section.split(/^## /m);
  return Array.from(own.matchAll(/^\| ([^|]*`[^|]*) \|/gm), ([, cell = '']) =>
    Array.from(cell.matchAll(/`([^`]+)`/g), ([, name = '']) => name),
  ).flat();
}

test('the page has every close code, with the rule that the tests follow', () => {
  const codes = names('Close codes').map(Number);
  for (const { code } of Object.values(closings)) assert.ok(codes.includes(code), String(code));
  const mayNot = codes.filter((code) => reconnectDelayMs(code, 0) === null);
  assert.deepEqual(mayNot, [4401, 4403, 1002, 1007, 1000, 1001]);
  assert.ok([0, 1, 9].every((attempt) => Number(reconnectDelayMs(4429, attempt)) >= 60_000));
  assert.ok([0, 1, 9].every((attempt) => Number(reconnectDelayMs(1006, attempt)) <= 30_000));
});

test('the page has the limits as they are', () => {
  for (const [what, howMuch] of [
    ['a message', `${socketLimits.maxMessageBytes / 1024} KiB`],
    ['messages in a minute', String(socketLimits.messagesPerMinute)],
    ['messages that wait for the one before them', String(socketLimits.waitingMessages)],
    ['messages in error in a minute', String(socketLimits.errorsPerMinute)],
    ['data that the client has not read', `${socketLimits.maxBufferedBytes / 1024 ** 2} MiB`],
  ] as const) {
    assert.match(page, new RegExp(`^\\| ${what} +\\| ${howMuch} +\\|`, 'm'));
  }
  assert.ok(page.includes(`ping every ${socketLimits.pingIntervalMs / 1000} s`));
});
