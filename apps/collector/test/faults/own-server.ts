import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { atEnd } from '@oselya/db/testing';

const SCRIPT = join(import.meta.dirname, '../../../../scripts/postgres');
const run = promisify(execFile);

/** A PostgreSQL server that nobody else uses. */
export type OwnServer = {
  /** Of an empty database. */
  url: string;
  /** `fast` ends all connections and shuts down; `immediate` is a crash, and recovers from the log. */
  restart(mode: 'fast' | 'immediate'): Promise<void>;
};

/** Whether the tests run on the server of `scripts/postgres`, which then can run another beside it. */
export function canStartServer(): boolean {
  const given = process.env['TEST_DATABASE_URL'];
  if (given === undefined) return false;
  try {
    return execFileSync(SCRIPT, ['url'], { encoding: 'utf8', stdio: 'pipe' }).trim() === given;
  } catch {
    // It has a reason on standard error: mostly that none runs.
    return false;
  }
}

/** Starts a server beside the one that the tests run on. It goes when the file's tests have ended. */
export async function startServer(): Promise<OwnServer> {
  const env = {
    ...process.env,
    OSELYA_POSTGRES_SERVER: `restarts-${randomBytes(4).toString('hex')}`,
    OSELYA_POSTGRES_PORT: String(await freePort()),
  };
  atEnd(async () => {
    await run(SCRIPT, ['destroy', '--yes'], { env });
  });
  const { stdout } = await run(SCRIPT, ['start'], { env });
  return {
    url: stdout.trim(),
    async restart(mode) {
      await run(SCRIPT, ['restart', mode], { env });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
