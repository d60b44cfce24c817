// Ends a test process that runs too long, such as one with an open server or timer, and names the open resources.
const TIMEOUT_MS = (process.env['OSELYA_SOAK'] === '1' ? 120 : 10) * 60_000;

setTimeout(() => {
  const openResources = process.getActiveResourcesInfo().join(', ');
  const name = process.argv[1] ?? 'The tests';
  process.stderr.write(
    `${name} was still running after ${TIMEOUT_MS / 60_000} minutes and is ended; open resources: ${openResources}\n`,
  );
  process.exit(1);
}, TIMEOUT_MS).unref();
