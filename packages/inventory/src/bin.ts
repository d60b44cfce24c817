#!/usr/bin/env node
import { runInventoryProcess } from './cli.ts';

// Entry point of the standalone package.
process.exitCode = await runInventoryProcess(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  name: 'oselya-inventory',
});
