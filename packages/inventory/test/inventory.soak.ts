// Runs the long versions of two test files: 100,000 generated documents, and all hostile inventories.
process.env['FUZZ_DOCUMENTS'] = '100000';
process.env['ALL_MEMORY_RUNS'] = '1';
await import('./json.test.ts');
await import('./memory.test.ts');
