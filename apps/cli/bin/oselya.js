#!/usr/bin/env node
import module from 'node:module';

// Plain JavaScript that every Node since 14.8 (2020, the first with top-level await) understands, so that
// an old one gets a sentence instead of a syntax error in TypeScript.
const [major, minor] = process.versions.node.split('.').map(Number);
if (major > 24 || (major === 24 && minor >= 12)) {
  // What was compiled once need not be compiled again at the next start. To write that down takes some 30 MB, which
  // a check of an inventory may not have (docs/adr/0022-size-of-a-record.md).
  if (process.argv[2] !== 'inventory') module.enableCompileCache();
  const { main } = await import('../src/main.ts');
  process.exitCode = await main(process.argv.slice(2));
} else {
  console.error(
    `oselya: Node 24.12 or newer is needed, this is ${process.version}: run "npm ci" and then "npm start" or "npx oselya", which bring their own`,
  );
  // Of an inventory, 1 says that it is invalid.
  process.exitCode = process.argv[2] === 'inventory' ? 2 : 1;
}
