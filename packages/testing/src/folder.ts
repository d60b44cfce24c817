import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deferCleanup } from './flow.ts';

/** Creates a temporary folder, which is removed after the tests of the file. */
export async function openFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-test-'));
  deferCleanup(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
