// The command as a process of its own.
import { runInventory } from '@oselya/inventory';

process.exitCode = await runInventory(process.argv.slice(2), process);
