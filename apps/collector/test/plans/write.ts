// Writes the plans of the main queries anew, for review: see README.md in the folder `plans`.

import { connect, migrate } from '@oselya/db';
import type { Tables } from '../../src/tables.ts';
import { migrations } from '../../src/database.ts';
import { collectPlans, DIMENSIONS } from './collect.ts';
import { writePlans } from './files.ts';

const database = await connect<Tables>({});
await migrate(database, migrations({ EMBEDDING_DIMENSIONS: DIMENSIONS }));
await writePlans(await collectPlans(database));
await database.close();
