// Runs the long versions of the tests of faults.
process.env['OSELYA_SOAK'] = '1';
await import('./hostile.db.test.ts');
await import('./kills.db.test.ts');
await import('./killed-ingest.db.test.ts');
await import('./database-outage.db.test.ts');
await import('./shipped-kills.db.test.ts');
await import('./restarted-server.db.test.ts');
