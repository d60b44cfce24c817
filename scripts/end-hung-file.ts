// Loaded into each test process. After its tests, a process that still has a server or timer open would keep the run
// waiting, so it ends, failed, and names what is open.
const LIMIT_MS = 10 * 60_000;

setTimeout(() => {
  const open = process.getActiveResourcesInfo().join(', ');
  const name = process.argv[1] ?? 'The tests';
  process.stderr.write(`${name} still ran after ${LIMIT_MS / 60_000} minutes, held by: ${open}\n`);
  process.exit(1);
}, LIMIT_MS).unref();
