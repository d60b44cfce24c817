import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createTemporaryFolder } from '../../src/images/temporary.ts';

// Keeps a temporary folder locked until the process is killed.
const path = createTemporaryFolder(process.argv[2] ?? '').path();
writeFileSync(join(path, 'half an image'), 'bytes');
process.send?.(path);
process.on('disconnect', () => process.exit());
