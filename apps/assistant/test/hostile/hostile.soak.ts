// Runs all 10,000 generated requests.
process.env['HOSTILE_SCALE'] = '1';
await import('./hostile.db.test.ts');
