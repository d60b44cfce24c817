#!/usr/bin/env node
import { runInventory } from './cli.ts';
import { keepHeapSmall } from './heap.ts';

const NAME = 'oselya-inventory';

// The command of the package where it is installed alone.
keepHeapSmall();
const ran = runInventory(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  name: NAME,
});
process.exitCode = await ran.catch((error: unknown) => {
  process.stderr.write(`${NAME}: it broke down, which is a fault of its own: ${String(error)}\n`);
  return 1;
});
