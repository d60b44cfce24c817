// Runs the long versions of the fault tests.
process.env['OSELYA_SOAK'] = '1';
await import('./database.faults.ts');
await import('./provider.faults.ts');
