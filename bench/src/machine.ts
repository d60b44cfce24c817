import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';
import { promisify } from 'node:util';

/** Machine and software versions of a run. */
export type Machine = {
  cores: number;
  processor: string;
  memoryGiB: number;
  /** One-minute load average before the run. */
  loadBefore: number;
  node: string;
  postgres: string;
  /** Commit of this repository, or `unknown` without Git; a trailing `+` marks uncommitted changes. */
  commit: string;
  /** Versions of the benchmark's third-party dependencies by package name. */
  packages: Record<string, string>;
};

/**
 * Returns a description of this machine and the software versions.
 * @param postgres Description of the PostgreSQL server.
 */
export async function describeMachine(postgres: string): Promise<Machine> {
  return {
    cores: availableParallelism(),
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    loadBefore: Math.round((loadavg()[0] ?? 0) * 100) / 100,
    node: process.versions.node,
    postgres,
    commit: await readCommit(),
    packages: await readPackageVersions(),
  };
}

/** Returns the description as a Markdown list. */
export function formatMachine(machine: Machine): string {
  const { cores, processor, memoryGiB, loadBefore, node, postgres } = machine;
  const packageList = Object.entries(machine.packages).map((entry) => entry.join(' '));
  return [
    `- ${cores} cores (${processor}), ${memoryGiB} GiB, load average ${loadBefore} before`,
    `- Node ${node}, PostgreSQL ${postgres}, commit ${machine.commit}`,
    `- ${packageList.join(', ')}`,
  ].join('\n');
}

async function readCommit(): Promise<string> {
  try {
    const id = await runGit('rev-parse', '--short', 'HEAD');
    return id + ((await runGit('status', '--porcelain')) === '' ? '' : '+');
  } catch {
    // A source archive has no Git history.
    return 'unknown';
  }
}

async function runGit(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)('git', args, { cwd: import.meta.dirname });
  return stdout.trim();
}

async function readPackageVersions(): Promise<Record<string, string>> {
  const file = new URL('../package.json', import.meta.url);
  const { dependencies } = JSON.parse(await readFile(file, 'utf8')) as {
    dependencies: Record<string, string>;
  };
  const entries = Object.entries(dependencies);
  return Object.fromEntries(entries.filter(([name]) => !name.startsWith('@oselya/')));
}
