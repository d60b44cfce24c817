// The yardstick as a command: node json-parse.ts FILE parses a file as a whole, and nothing else.
import { readFileSync } from 'node:fs';

const records: unknown[] = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8'));
process.stdout.write(`${records.length}\n`);
