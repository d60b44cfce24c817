import { hostname } from 'node:os';

/** Names a part of this process in claims, for whoever looks at the table. */
export function processName(part: string): string {
  return `${hostname()}/${process.pid}/${part}`;
}
