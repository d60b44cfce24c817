import { execFileSync } from 'node:child_process';

const TERMINATE = `
  import pg from 'pg';
  const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
  await client.connect();
  await client.query(\`
    select pg_terminate_backend(pid, 5000) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'\`);
  await client.end();`;

/**
 * Ends all connections to a database, as a restart of its server does. It blocks this process until then, so that the
 * next query on each connection is the first to notice.
 */
export function cutConnections(url: string): void {
  execFileSync(process.execPath, ['--input-type=module', '--eval', TERMINATE], {
    cwd: import.meta.dirname,
    env: { ...process.env, DATABASE_URL: url },
  });
}
