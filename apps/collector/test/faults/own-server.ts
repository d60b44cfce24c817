import { execFile, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { atEnd, freePort } from '@oselya/testing';

const SCRIPT = join(import.meta.dirname, '../../../../scripts/postgres');
const run = promisify(execFile);

/** A PostgreSQL server that nobody else uses. */
export type OwnServer = {
  /** Of an empty database. */
  url: string;
  /** `fast` ends all connections and shuts down; `immediate` is a crash, and recovers from the log. */
  restart(mode: 'fast' | 'immediate'): Promise<void>;
};

/**
 * Why no server can be started beside the one at an address; undefined where it is that of
 * `scripts/postgres`, which can run another.
 */
export function reasonAgainstServer(given: string): string | undefined {
  const known = spawnSync(SCRIPT, ['url'], { encoding: 'utf8' });
  // It has a reason on standard error: mostly that none runs.
  if (known.status !== 0) return `scripts/postgres has no server: ${known.stderr.trim()}`;
  const [wanted, got] = [hostOf(known.stdout.trim()), hostOf(given)];
  return wanted === got ? undefined : `TEST_DATABASE_URL is of ${got}, not of ${wanted}`;
}

/** Where a server is; `localhost` is this machine too. */
function hostOf(url: string): string {
  const { hostname, port } = new URL(url);
  return `${hostname === 'localhost' ? '127.0.0.1' : hostname}:${port || '5432'}`;
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
