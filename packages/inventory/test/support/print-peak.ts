// Loaded before a command: prints the most memory that its process had, in bytes, as it ends.
import { writeSync } from 'node:fs';

process.on('exit', () => writeSync(2, `${1024 * process.resourceUsage().maxRSS}`));
