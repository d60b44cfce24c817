// Runs the long versions of the fault tests.
process.env['OSELYA_SOAK'] = '1';
await import('./hostile.db.test.ts');
await import('./kills.db.test.ts');
await import('./killed-collectors.db.test.ts');
await import('./database.db.test.ts');
