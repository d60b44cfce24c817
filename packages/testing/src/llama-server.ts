import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findFreePort } from './network.ts';
import { createRandomModel } from './random-model.ts';

export { WIDTH } from './random-model.ts';

const LLAMA_SERVER_PATH = join(import.meta.dirname, '../../../scripts/llama-server');

/** Startup time limit. It is long, because the first startup downloads packages. */
const START_TIMEOUT_MS = 180_000;

/**
 * Starts a llama.cpp server with a random model on a free loopback port.
 * @param args Additional arguments of `llama-server`. With `--embeddings`, it serves an embedding model.
 * @throws Error with the end of the log if the server exits, or does not respond within three minutes.
 */
export async function startLlamaServer(...args: string[]) {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-llama-'));
  const file = join(folder, 'model.gguf');
  await writeFile(file, createRandomModel({ pooling: args.includes('--embeddings') }));
  const port = await findFreePort();
  const address = ['--host', '127.0.0.1', '--port', String(port)];
  const allArgs = ['-m', file, ...address, '--threads', '1', ...args];
  const child = spawn(LLAMA_SERVER_PATH, allArgs, { stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-4_000);
    });
  }
  const exitEvent = once(child, 'exit');
  const close = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await exitEvent;
    await rm(folder, { recursive: true, force: true });
  };
  const url = `http://127.0.0.1:${port}`;
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (!(await isResponding(`${url}/health`))) {
    if (child.exitCode !== null || Date.now() > deadline) {
      await close();
      throw new Error(`llama-server does not respond:\n${log}`);
    }
    await sleep(50);
  }
  return { url: `${url}/v1`, close, [Symbol.asyncDispose]: close };
}

async function isResponding(url: string): Promise<boolean> {
  const response = await fetch(url).catch(() => undefined);
  return response?.ok ?? false;
}
