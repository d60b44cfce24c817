// Runs a benchmark suite: npm run bench -- auth. Without arguments it lists the suites.
// Exit status: 0 for success; 1 for wrong responses or counts, or a failed run; 2 for invalid arguments; 130 for an
// interrupted run.

import { BenchError } from './bench-error.ts';
import type { Suite } from './suite.ts';
import { findDatabaseServer } from './database.ts';
import { describeMachine, formatMachine } from './machine.ts';
import { type Options, readArguments, USAGE, UsageError } from './options.ts';
import { openResults } from './results.ts';
import { suites } from './suites.ts';

/** Exit status that shells report for a command interrupted with Ctrl-C. */
const INTERRUPTED_STATUS = 130;

const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (stop.signal.aborted) {
    process.exitCode = INTERRUPTED_STATUS;
  } else if (error instanceof UsageError) {
    logProgress(`bench: ${error.message} (${USAGE})`);
    process.exitCode = 2;
  } else if (error instanceof BenchError) {
    logProgress(`bench: ${error.message}`);
    process.exitCode = 1;
  } else {
    throw error;
  }
}

async function main(args: string[]): Promise<number> {
  const { suite: name, options } = readArguments(args);
  if (name === undefined) {
    print(`${USAGE}\n\nSuites:`);
    for (const [suite, { summary }] of suites) print(`  ${suite}  ${summary}`);
    return 0;
  }
  const suite = suites.get(name);
  if (suite === undefined) {
    throw new UsageError(`unknown suite ${name}: choose one of ${[...suites.keys()].join(', ')}`);
  }
  return measure(name, suite, options);
}

async function measure(name: string, suite: Suite, options: Options): Promise<number> {
  const databases = await findDatabaseServer(process.env);
  const machine = await describeMachine(databases.description);
  const results = await openResults(name, options.out);
  // The file name does not affect the measurement, so the results omit it.
  const { out: _, isSmokeRun: smoke, ...runOptions } = options;
  await results.keep('run', {
    suite: name,
    at: new Date().toISOString(),
    ...runOptions,
    smoke,
    machine,
  });
  const report = await suite.run({ options, databases, results, logProgress, signal: stop.signal });
  const table = `# ${name}\n\n${formatMachine(machine)}\n\n${report.text}\n`;
  print(table);
  await results.writeTable(table);
  for (const failure of report.failures) logProgress(`bench: ${failure}`);
  logProgress(`Raw results: ${results.file}`);
  return report.failures.length === 0 ? 0 : 1;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

function logProgress(line: string): void {
  process.stderr.write(`${line}\n`);
}
