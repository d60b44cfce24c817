// Runs the long versions of the fault tests.
process.env['OSELYA_SOAK'] = '1';
await import('./hostile.faults.ts');
await import('./kills.faults.ts');
await import('./killed-collectors.faults.ts');
await import('./database.faults.ts');
await import('./model.faults.ts');
await import('./images.faults.ts');
