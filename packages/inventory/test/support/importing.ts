import { Readable } from 'node:stream';
import { runInventory } from '@oselya/inventory';
import { Collector } from './transcript.ts';

/** Runs `import --from` on a text that comes through standard input. */
export async function importing(from: string, text: string) {
  const [stdout, stderr] = [new Collector(), new Collector()];
  const stdin = Readable.from([Buffer.from(text)]);
  const argv = ['import', '--from', from, '-'];
  const status = await runInventory(argv, { stdin, stdout, stderr, env: {} });
  return { status, stdout: stdout.text, stderr: stderr.text };
}
