import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { checkInstructions } from '../../src/agent/check-instructions.ts';
import { SHIPPED_PROFILES } from '../../src/profiles/profiles.ts';
import { unconnectedTools as tools } from '../helpers/unconnected-tools.ts';
import { folderOf, openFolder, profile } from '../profiles/folder.ts';

const within = (contextTokens: number) => ({ check: checkInstructions({ tools, contextTokens }) });

test('the shipped profiles fit the smallest window', async () => {
  assert.equal((await openFolder(SHIPPED_PROFILES, within(2048))).all().length, 3);
});

test('a profile that leaves no room for questions is invalid', async () => {
  const long = profile('long').replace('Help.', 'слово '.repeat(4000));
  const folder = await folderOf({ 'a.yaml': profile('a'), 'long.yaml': long });
  await openFolder(folder, within(32_768));
  const fault =
    /long\.yaml:1 system and tools are about 1\d{4} tokens, and MODEL_CONTEXT_TOKENS leaves them 7168: shorten system or list fewer tools, or raise/;
  await assert.rejects(openFolder(folder, within(8192)), fault);

  await writeFile(join(folder, 'long.yaml'), profile('long'));
  const profiles = await openFolder(folder, within(8192));
  await writeFile(join(folder, 'long.yaml'), long);
  await profiles.reload();
  await profiles.reload();
  assert.equal(profiles.find('long')?.system, 'Help.');
  assert.match(profiles.faultOf('long') ?? '', fault);
});
