import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { runInventory } from '@oselya/inventory';

/**
 * A transcript is a title, then sections that begin with `-- name --`.
 *
 *     file NAME       a file in the folder of the command, or in a folder in it
 *     escaped NAME    the same, with \xNN for bytes, \n for line ends and nothing else implied
 *     command         the command line; `< NAME` sets standard input, `TERMINAL=1` a terminal,
 *                     other NAME=VALUE words the environment
 *     stdout stderr   the expected output, with \x1b for the escape character
 *     status          the expected exit status
 *     after NAME      the contents of a file afterwards
 */
export type Transcript = { title: string; sections: Map<string, string> };

export function parseTranscript(text: string): Transcript {
  const [title = '', ...parts] = text.split(/^-- (.+) --\n/m);
  const sections = new Map<string, string>();
  for (let index = 0; index < parts.length; index += 2) {
    sections.set(parts[index] ?? '', parts[index + 1] ?? '');
  }
  return { title, sections };
}

export function formatTranscript({ title, sections }: Transcript): string {
  return title + [...sections].map(([name, text]) => `-- ${name} --\n${text}`).join('');
}

/** Runs the command of a transcript in a new folder and returns the actual transcript. */
export async function replay(transcript: Transcript): Promise<Transcript> {
  const home = process.cwd();
  const folder = mkdtempSync(join(tmpdir(), 'inventory-'));
  try {
    process.chdir(folder);
    const files = new Map<string, Buffer>();
    for (const [section, text] of transcript.sections) {
      const [kind, name] = section.split(' ');
      if (name === undefined || kind === 'after') continue;
      files.set(name, kind === 'escaped' ? unescape(text) : Buffer.from(text));
      mkdirSync(dirname(name), { recursive: true });
      writeFileSync(name, files.get(name) ?? '');
    }
    const { argv, env, stdin } = parseCommand(transcript.sections.get('command') ?? '');
    const input = stdin === null ? [] : [files.get(stdin) ?? Buffer.alloc(0)];
    const isTTY = env['TERMINAL'] === '1';
    const { status, stdout, stderr } = await run(argv, { stdin: Readable.from(input), env, isTTY });
    const sections = new Map(transcript.sections);
    sections.set('stdout', stdout.replaceAll('\x1b', '\\x1b'));
    sections.set('stderr', stderr.replaceAll('\x1b', '\\x1b'));
    sections.set('status', `${status}\n`);
    for (const section of sections.keys()) {
      const [kind, name = ''] = section.split(' ');
      if (kind === 'after') sections.set(section, readFileSync(name, 'utf8'));
    }
    return { title: transcript.title, sections };
  } finally {
    process.chdir(home);
    rmSync(folder, { recursive: true });
  }
}

/** Runs the command and returns its exit status and output. */
export async function run(
  argv: string[],
  io: { stdin?: AsyncIterable<Uint8Array>; env?: Record<string, string>; isTTY?: boolean } = {},
) {
  const [stdout, stderr] = [new Collector(), new Collector()];
  const options = { stdin: Readable.from([]), env: {}, ...io, stdout, stderr };
  const status = await runInventory(argv, options);
  return { status, stdout: stdout.text, stderr: stderr.text };
}

/** Runs `import --from` on a text from standard input. */
export function importing(from: string, text: string) {
  return run(['import', '--from', from, '-'], { stdin: Readable.from([Buffer.from(text)]) });
}

/** A writable stream that collects its output. */
export class Collector extends Writable {
  text = '';

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

function parseCommand(line: string) {
  const [command = '', stdin = null] = line.trim().split(' < ');
  const words = command.split(' ');
  const env: Record<string, string> = {};
  while (words[0]?.includes('=')) {
    const [name = '', value = ''] = words.shift()?.split('=') ?? [];
    env[name] = value;
  }
  assert.deepEqual(words.splice(0, 2), ['oselya', 'inventory']);
  return { argv: words, env, stdin };
}

function unescape(text: string): Buffer {
  const controls: Record<string, string> = { n: '\n', r: '\r', t: '\t' };
  const bytes = text
    .replaceAll('\n', '')
    .replace(/\\x([\da-f]{2})|\\([nrt])/g, (_, hex?: string, letter = '') =>
      hex === undefined
        ? (controls[String(letter)] ?? '')
        : String.fromCharCode(Number.parseInt(hex, 16)),
    );
  return Buffer.from(bytes, 'latin1');
}
