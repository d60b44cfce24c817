import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import {
  type Finding,
  type InventorySource,
  runInventory,
  validateInventory,
  type ValidateOptions,
  type ValidationSummary,
} from '@oselya/inventory';

export const VALID_RECORD = {
  id: 'gateway',
  name: 'Gateway',
  type: 'http',
  status: 'active',
  exposure: 'private',
  docs: 'docs/gateway.md',
  last_reviewed: '2026-11-20',
};

export async function validate(
  source: InventorySource,
  options?: ValidateOptions,
): Promise<{ findings: Finding[]; summary: ValidationSummary }> {
  const findings: Finding[] = [];
  const validation = validateInventory(source, options);
  for (;;) {
    const iteration = await validation.next();
    if (iteration.done) return { findings, summary: iteration.value };
    findings.push(iteration.value);
  }
}

export async function collectCodes(source: InventorySource, options?: ValidateOptions) {
  const { findings } = await validate(source, options);
  return findings.map(({ code }) => code);
}

/** Yields bytes in chunks that end at the given offsets. Overwrites each chunk afterwards, like a reused buffer. */
export async function* inChunks(bytes: Buffer, ends: number[]): AsyncGenerator<Uint8Array> {
  let chunkStart = 0;
  for (const end of [...ends.toSorted((a, b) => a - b), bytes.length]) {
    const chunk = Uint8Array.from(bytes.subarray(chunkStart, end));
    yield chunk;
    chunk.fill(0x58);
    chunkStart = end;
  }
}

/** Yields bytes in chunks of a given size, as `inChunks` does. */
export function splitIntoChunks(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  const chunkCount = Math.floor(bytes.length / size);
  return inChunks(
    bytes,
    Array.from({ length: chunkCount }, (_, index) => size * (index + 1)),
  );
}

/** Returns the field paths of a value, such as `findings[].line`. */
export function listFieldPaths(value: unknown, path = ''): string[] {
  if (Array.isArray(value))
    return [...new Set(value.flatMap((element) => listFieldPaths(element, `${path}[]`)))];
  if (typeof value !== 'object' || value === null) return [path];
  return Object.entries(value).flatMap(([key, member]) =>
    listFieldPaths(member, path === '' ? key : `${path}.${key}`),
  );
}

/**
 * Transcript of a command: a title, then sections that begin with `-- name --`.
 *
 *     file NAME       a file in the folder of the command or in its subfolders
 *     escaped NAME    the same, with \xNN for bytes and \n for line ends
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
  const previousFolder = process.cwd();
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
    process.chdir(previousFolder);
    rmSync(folder, { recursive: true });
  }
}

export async function run(
  argv: string[],
  io: { stdin?: AsyncIterable<Uint8Array>; env?: Record<string, string>; isTTY?: boolean } = {},
) {
  const [stdout, stderr] = [new Collector(), new Collector()];
  const options = { stdin: Readable.from([]), env: {}, ...io, stdout, stderr };
  const status = await runInventory(argv, options);
  return { status, stdout: stdout.text, stderr: stderr.text };
}

export function runImport(from: string, text: string) {
  return run(['import', '--from', from, '-'], { stdin: Readable.from([Buffer.from(text)]) });
}

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
    .replace(/\\x([\da-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replace(/\\([nrt])/g, (_, name: string) => controls[name] ?? '');
  return Buffer.from(bytes, 'latin1');
}
