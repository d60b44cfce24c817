// Loaded before a command: prints the most memory that its process had, in bytes, as it ends.
import { writeSync } from 'node:fs';
import { peakBytes } from './peak-bytes.ts';

process.on('exit', () => writeSync(2, String(peakBytes())));
