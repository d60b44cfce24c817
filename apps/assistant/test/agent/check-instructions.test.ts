import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { StartError } from '@oselya/kit';
import { checkInstructions } from '../../src/agent/check-instructions.ts';
import { loadProfiles, SHIPPED_PROFILES } from '../../src/profiles/load.ts';
import { createProfiles } from '../../src/profiles/profiles.ts';
import { createReload } from '../../src/profiles/reload.ts';
import { unconnectedTools as tools } from '../helpers/unconnected-tools.ts';
import { folderOf, profile } from '../profiles/folder.ts';

const checkFor = (contextTokens: number) => checkInstructions({ tools, contextTokens });

test('the shipped profiles leave room in the least window that can be set', async () => {
  const { loaded } = await loadProfiles(SHIPPED_PROFILES, checkFor(2048));
  assert.equal(loaded.size, 3);
});

test('a profile that leaves no room for questions stops the start, with its line and what to do', async () => {
  const text = profile('long').replace('Help.', 'слово '.repeat(4000));
  const folder = await folderOf({ 'a.yaml': profile('a'), 'long.yaml': text });
  await loadProfiles(folder, checkFor(32_768));
  await assert.rejects(loadProfiles(folder, checkFor(8192)), (error) => {
    assert.ok(error instanceof StartError);
    assert.match(
      error.message,
      /long\.yaml:1 system and tools are about 1\d{4} tokens, and MODEL_CONTEXT_TOKENS leaves them 7168: shorten system or list fewer tools, or raise/,
    );
    assert.doesNotMatch(error.message, /a\.yaml/);
    return true;
  });
});

test('one that grows too long while the assistant runs is used as it was before', async () => {
  const folder = await folderOf({ 'a.yaml': profile('a') });
  const check = checkFor(8192);
  const profiles = createProfiles(await loadProfiles(folder, check));
  const faults: string[][] = [];
  const log = {
    info: () => undefined,
    error: (fields: { faults: string[] }) => faults.push(fields.faults),
  };
  const look = createReload({ folder, profiles, check, log: log as never });
  await look();
  await look();
  await writeFile(join(folder, 'a.yaml'), profile('a').replace('Help.', 'слово '.repeat(4000)));
  await look();
  await look();
  assert.equal(profiles.find('a')?.system, 'Help.');
  assert.match(String(faults.at(-1)), /^a\.yaml:1 system and tools are about/);
});
