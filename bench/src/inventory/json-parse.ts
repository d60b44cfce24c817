// Command for comparison: `node json-parse.ts FILE` parses a file and prints the number of its records.
import { readFileSync } from 'node:fs';

const records: unknown[] = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8'));
process.stdout.write(`${records.length}\n`);
