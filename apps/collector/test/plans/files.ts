import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const FOLDER = join(import.meta.dirname, '../../plans');

/** The reviewed plans by their names. */
export async function readPlans(): Promise<Map<string, string>> {
  const names = (await readdir(FOLDER)).filter((name) => name.endsWith('.txt')).toSorted();
  const plans = names.map(
    async (name) =>
      [name.replace(/\.txt$/, ''), await readFile(join(FOLDER, name), 'utf8')] as const,
  );
  return new Map(await Promise.all(plans));
}

/** Replaces the reviewed plans: what changed is then to be reviewed. */
export async function writePlans(plans: ReadonlyMap<string, string>): Promise<void> {
  await mkdir(FOLDER, { recursive: true });
  for (const name of (await readPlans()).keys()) await rm(join(FOLDER, `${name}.txt`));
  for (const [name, plan] of plans) await writeFile(join(FOLDER, `${name}.txt`), plan);
}
