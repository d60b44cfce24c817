// Loaded into each process of a test file. A file that has run its tests but left a server or a timer open
// would keep the whole run waiting without a word; so it ends, failed, and says what held it.
const LIMIT_MS = 10 * 60_000;

setTimeout(() => {
  const held = process.getActiveResourcesInfo().join(', ');
  process.stderr.write(
    `${process.argv[1]} still ran after ${LIMIT_MS / 60_000} minutes, held by: ${held}\n`,
  );
  process.exit(1);
}, LIMIT_MS).unref();
