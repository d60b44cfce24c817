import { readFile } from 'node:fs/promises';
import { readFailureAsUsage } from './read-failure.ts';

/**
 * The text of a file beside the inventories, such as a configuration.
 * @throws UsageError when it cannot be read.
 */
export async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw readFailureAsUsage(error, file);
  }
}
