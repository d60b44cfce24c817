// Ends a test process that an open server or timer keeps alive, and names the open resources.
const LIMIT_MS = 10 * 60_000;

setTimeout(() => {
  const open = process.getActiveResourcesInfo().join(', ');
  const name = process.argv[1] ?? 'The tests';
  process.stderr.write(`${name} still ran after ${LIMIT_MS / 60_000} minutes, held by: ${open}\n`);
  process.exit(1);
}, LIMIT_MS).unref();
