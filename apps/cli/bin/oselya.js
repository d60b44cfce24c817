#!/usr/bin/env node
import module from 'node:module';

// This file is JavaScript for Node 14.8 and later, which support top-level await. An unsupported version
// prints an error message instead of a syntax error in TypeScript.
const [major, minor] = process.versions.node.split('.').map(Number);
if (major > 24 || (major === 24 && minor >= 12)) {
  // The compile cache makes later starts faster. Writing the cache needs about 30 MB of memory, which may exceed
  // the limit of `inventory` (docs/adr/0022-size-of-a-record.md).
  if (process.argv[2] !== 'inventory') module.enableCompileCache();
  const { main } = await import('../src/main.ts');
  process.exitCode = await main(process.argv.slice(2));
} else {
  console.error(
    `oselya: Node 24.12 or newer is needed, this is ${process.version}: run "npm ci" and then "npm start" or "npx oselya", which bring their own`,
  );
  // For `inventory`, 1 means an invalid inventory. Contract 5.
  process.exitCode = process.argv[2] === 'inventory' ? 2 : 1;
}
