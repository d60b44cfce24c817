import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { link, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, test } from 'node:test';
import { runInventory } from '@oselya/inventory';
import { MAX_BASELINE_BYTES } from '../../src/limits.ts';
import { VALID_RECORD } from '../support/findings.ts';
import { Collector } from '../support/transcript.ts';

const folder = await mkdtemp(join(tmpdir(), 'inventory-lint-'));
after(() => rm(folder, { recursive: true }));

async function lint(...args: string[]) {
  const [stdout, stderr] = [new Collector(), new Collector()];
  const stdin = Readable.from([]);
  const status = await runInventory(['lint', ...args], { stdin, stdout, stderr, env: {} });
  return { status, stdout: stdout.text, stderr: stderr.text };
}

test('--fix refuses a pipe without reading it, and leaves the files beside it', async () => {
  const file = join(folder, 'net.json');
  const pipe = join(folder, 'pipe');
  const text = JSON.stringify([{ ...VALID_RECORD, port: '443' }]);
  await writeFile(file, text);
  execFileSync('mkfifo', [pipe]);
  // Nobody writes to the pipe, so to read it would be to wait for ever.
  const { status, stdout, stderr } = await lint('--fix', file, pipe);
  assert.equal(
    stderr,
    `oselya inventory lint: --fix writes files; ${pipe} is a pipe or a device: save it as a file, and name that\n`,
  );
  assert.deepEqual([status, stdout], [2, '']);
  assert.equal(await readFile(file, 'utf8'), text);
});

test('a baseline beyond its limit is told with what to do, and not read', async () => {
  const [file, baseline] = [join(folder, 'valid.json'), join(folder, 'known.json')];
  await writeFile(file, JSON.stringify([VALID_RECORD]));
  await writeFile(baseline, '');
  await truncate(baseline, MAX_BASELINE_BYTES + 1);
  for (const more of [[], ['--update-baseline']]) {
    const { status, stdout, stderr } = await lint('--baseline', baseline, ...more, file);
    assert.equal(
      stderr,
      `oselya inventory lint: cannot read ${baseline}: it is larger than 256 MiB; lint fewer files with it, or mend what is found most\n`,
    );
    assert.deepEqual([status, stdout], [2, '']);
  }
});

test('a baseline is written beside the old one, which is whole until then', async () => {
  const file = join(folder, 'taken-in.json');
  const [baseline, old] = [join(folder, 'taken-in.known'), join(folder, 'taken-in.old')];
  const empty = '{"findings": []}';
  await writeFile(file, JSON.stringify([{ ...VALID_RECORD, port: 0 }]));
  await writeFile(baseline, empty);
  // Another name for it, under which the old text stays when nothing is written into it.
  await link(baseline, old);
  const { status, stderr } = await lint('--baseline', baseline, '--update-baseline', file);
  assert.match(stderr, /written to/);
  assert.equal(status, 0);
  assert.match(await readFile(baseline, 'utf8'), /lint\/port-range/);
  assert.equal(await readFile(old, 'utf8'), empty);
});

test('a configuration that is nested deeper than can be read is told', async () => {
  const [file, config] = [join(folder, 'valid.json'), join(folder, 'deep.json')];
  await writeFile(file, JSON.stringify([VALID_RECORD]));
  for (const opening of ['[', '{"rules":']) {
    await writeFile(config, opening.repeat(100_000));
    const { status, stderr } = await lint('--config', config, file);
    assert.equal(
      stderr,
      `oselya inventory lint: ${config}:1:1: it is nested too deep; make it flatter\n`,
    );
    assert.equal(status, 2);
  }
});
