import { spawn } from 'node:child_process';

/** What opens an address with the user's browser, and its arguments before the address. */
const OPENERS: Readonly<Partial<Record<NodeJS.Platform, readonly [string, ...string[]]>>> = {
  darwin: ['open'],
  // Not by `start`, whose shell would read the address.
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};

/** Tries to open an address; where there is no browser nothing happens, since the address was printed. */
export function openBrowser(address: string): void {
  const [program, ...first] = OPENERS[process.platform] ?? ['xdg-open'];
  const child = spawn(program, [...first, address], { stdio: 'ignore', detached: true });
  child.on('error', () => undefined);
  child.unref();
}
