import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { atEnd } from '@oselya/db/testing';
import type { Browser, TestAssistant } from '../helpers/assistant.ts';

/** An assistant in a process of its own. */
export type AssistantProcess = {
  url: string;
  /** What it wrote to its log. */
  lines: string[];
  /** Ends it as the kernel does when memory runs out: it gets to do nothing more. */
  kill(): Promise<void>;
};

/**
 * Starts an assistant in a process of its own, on the PostgreSQL database of the test file. It ends
 * with the file's tests.
 */
export async function startProcess(
  { databaseUrl, settings }: TestAssistant,
  overrides: Record<string, string> = {},
): Promise<AssistantProcess> {
  if (databaseUrl === undefined) throw new Error('No other process can reach PGlite');
  const { NODE_TEST_CONTEXT: _ours, ...inherited } = process.env;
  const child = fork(join(import.meta.dirname, 'assistant-process.ts'), {
    env: {
      ...inherited,
      DATABASE_URL: databaseUrl,
      ASSISTANT_PORT: '0',
      LOG_LEVEL: 'trace',
      ...settings(overrides),
    },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  const exited = once(child, 'exit');
  const kill = async () => {
    child.kill('SIGKILL');
    await exited;
  };
  atEnd(kill);
  const lines: string[] = [];
  child.stdout?.setEncoding('utf8').on('data', (text: string) => lines.push(text));
  const failed = exited.then(([status]) => {
    throw new Error(`The assistant ended with ${String(status)}: ${lines.join('')}`);
  });
  const [url] = await Promise.race([once(child, 'message'), failed]);
  // Later it is killed on purpose.
  failed.catch(() => undefined);
  return { url: String(url), lines, kill };
}

/** Where one of several assistants that share a database listens. */
export type Replica = { url: string };

/**
 * Several assistants that share a database: processes of their own on PostgreSQL; on PGlite, which no
 * other process can reach, instances in this one.
 */
export function startReplicas(
  assistant: TestAssistant,
  count: number,
  overrides: Record<string, string> = {},
): Promise<Replica[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      if (assistant.databaseUrl !== undefined) return startProcess(assistant, overrides);
      const app = await assistant.instance(overrides);
      return { url: await app.listen({ host: '127.0.0.1', port: 0 }) };
    }),
  );
}

/** A request as a browser sends it, whose cookies go along. */
export type Sent = {
  path: string;
  method?: 'GET' | 'POST';
  headers?: Record<string, string>;
  body?: string;
};

/** Sends a request with a browser's cookies, and leaves them as they are. Redirects are answers too. */
export async function send(
  { url }: Replica,
  { cookies }: Pick<Browser, 'cookies'>,
  { path, headers = {}, ...rest }: Sent,
) {
  const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const response = await fetch(url + path, {
    ...rest,
    headers: { ...headers, ...(cookie !== '' && { cookie }) },
    redirect: 'manual',
  });
  return { status: response.status, headers: response.headers, body: await response.text() };
}
