import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createTemporaryFolder } from '../../src/images/temporary.ts';

// Keeps a temporary folder locked until the process is killed.
const temporaryFolder = createTemporaryFolder(process.argv[2] ?? '');
const path = temporaryFolder.path();
writeFileSync(join(path, 'half an image'), 'bytes');
process.send?.(path);
// The handler also keeps the folder's lock from garbage collection.
process.on('disconnect', () => void temporaryFolder.close().then(() => process.exit()));
