import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, readdir, stat } from 'node:fs/promises';
import { Agent, request as sendRequest } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { BenchError } from '../bench-error.ts';
import type { Document, DocumentFiles } from './documents.ts';
import type { Kind, Question } from './query.ts';

/** Search engine as a server on loopback. Each of its modules exports one as `engine`. */
export type Engine = {
  kinds: readonly Kind[];
  /** Returns the version; undefined if the engine is not installed and cannot be. */
  findVersion: () => Promise<string | undefined>;
  /** Stores and indexes documents, with their vectors if the engine has such, in an empty folder. */
  load: (options: { folder: string; files: DocumentFiles; signal: AbortSignal }) => Promise<void>;
  /** Starts the server on the data of a folder; the end of the scope stops it. */
  start: (folder: string, signal: AbortSignal) => Promise<RunningEngine>;
  /** Returns the request of a question. */
  prepare: (question: Question) => Request;
  /** Connects a client. */
  connect: (url: string) => Promise<Client>;
  /** Returns the hits of a response, best first. */
  readHits: (response: unknown) => Hit[];
};

export type Hit = { id: number; external_id: string; price: number | null };

export type RunningEngine = AsyncDisposable & {
  /** Addresses of the servers, over which the clients are spread. */
  urls: string[];
  processIds: () => Promise<number[]>;
  /** Returns the disk space of the data in bytes. */
  measureDisk: () => Promise<number>;
  /** Stores a document so that a later search finds it. */
  insert: (document: Document) => Promise<void>;
};

/** Serializable request: a path with a body of JSON, or a statement of SQL as the body. */
export type Request = { path: string; body: string };

export type Client = {
  /** Sends a request and returns its response. */
  send: (request: Request) => Promise<unknown>;
  close: () => Promise<void>;
};

/** Connects a client that keeps one connection and reads responses as text. */
export function connectHttp(url: string): Promise<Client> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const send = ({ path, body }: Request) => {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const method = body === '' ? 'GET' : 'POST';
    const headers = { 'content-type': 'application/json' };
    const request = sendRequest(url + path, { method, agent, headers }, (response) => {
      const readResponse = async () => {
        const content = await text(response);
        if (response.statusCode === 200) return content;
        throw new BenchError(`${url}: ${response.statusCode} ${content.slice(0, 300)}`);
      };
      resolve(readResponse());
    });
    request.on('error', reject);
    request.end(body);
    return promise;
  };
  return Promise.resolve({ send, close: () => Promise.resolve(agent.destroy()) });
}

/** Reads hits that have their listing as JSON. */
export const readRows = (rows: unknown): Hit[] =>
  (rows as { listing: string }[]).map(({ listing }) => JSON.parse(listing) as Hit);

/** Returns a free port of the loopback interface. */
export async function findPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' ? (address?.port ?? 0) : 0;
}

/**
 * Runs a command to its end.
 * @returns Its standard output.
 * @throws BenchError with the end of its output if it fails.
 */
export async function runCommand(
  command: string,
  args: readonly string[],
  options: { signal?: AbortSignal; cwd?: string } = {},
): Promise<string> {
  const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  const [output, errors, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  if (status !== 0) {
    throw new BenchError(`${command} failed (${status}): ${(output + errors).trim().slice(-500)}`);
  }
  return output;
}

/** Returns the first match of a pattern in the output of a command; undefined if it is not installed. */
export async function findCommandVersion(
  command: string,
  args: readonly string[],
  pattern: RegExp,
): Promise<string | undefined> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  child.on('error', () => undefined);
  const output = await Promise.all([text(child.stdout), text(child.stderr)]).catch(() => ['']);
  return pattern.exec(output.join('\n'))?.[1];
}

const START_TIMEOUT_MS = 120_000;
const STOP_TIMEOUT_MS = 30_000;

/** Starts a server and waits until it answers; the end of the scope stops it. */
export async function startServer(
  command: string,
  args: readonly string[],
  { signal, isReady }: { signal: AbortSignal; isReady: () => Promise<unknown> },
): Promise<{ pid: number } & AsyncDisposable> {
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 2], signal });
  child.on('error', () => undefined);
  const endsAt = Date.now() + START_TIMEOUT_MS;
  for (;;) {
    try {
      await isReady();
      break;
    } catch (error) {
      if (child.exitCode !== null || Date.now() > endsAt) {
        child.kill('SIGKILL');
        throw new BenchError(`${command} did not start`, { cause: error });
      }
      await sleep(100, undefined, { signal });
    }
  }
  return { pid: child.pid ?? 0, [Symbol.asyncDispose]: () => stopServer(child) };
}

async function stopServer(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const end = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
  await end;
  clearTimeout(timer);
}

/** Memory of processes in bytes: their own and shared memory, and mapped files, which the system may drop. */
export type ProcessMemory = { own: number; mapped: number };

/** Returns the memory of processes, with each shared page counted once. */
export async function measureMemory(processIds: readonly number[]): Promise<ProcessMemory> {
  const memory = { own: 0, mapped: 0 };
  for (const id of processIds) {
    const rollup = await readFile(`/proc/${id}/smaps_rollup`, 'utf8').catch(() => '');
    const read = (name: string) =>
      1024 * Number(new RegExp(`^${name}: +(\\d+) kB`, 'm').exec(rollup)?.[1] ?? 0);
    memory.own += read('Pss_Anon') + read('Pss_Shmem');
    memory.mapped += read('Pss_File');
  }
  return memory;
}

/** Returns the disk space that the files of a folder use, in bytes. */
export async function measureFolder(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const sizes = await Promise.all(
    entries
      .filter((entry) => entry.isFile())
      .map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).blocks * 512),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
