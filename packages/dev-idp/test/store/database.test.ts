import assert from 'node:assert/strict';
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, test } from 'node:test';
import { openDatabase } from '../../src/store/database.ts';
import { loadKeys } from '../../src/store/keys.ts';
import { storeFileFor } from '../helpers/start.ts';

describe('the store file', () => {
  test('can be read by its owner only, and so can its journal', (t) => {
    const file = storeFileFor(t);
    const database = openDatabase(file);
    database.prepare('insert into settings (name, value) values (?, ?)').run('a', 'b');
    for (const path of [file, `${file}-wal`]) assert.equal(statSync(path).mode & 0o777, 0o600);
    database.close();
  });

  test('that is no database is left as it is, with a message', (t) => {
    const file = storeFileFor(t);
    mkdirSync(dirname(file));
    writeFileSync(file, 'not a database, but long enough to look like one'.repeat(20));
    assert.throws(() => openDatabase(file), new RegExp(`cannot use its store ${file}.*delete it`));
  });

  test('of another version is left as it is, with a message', (t) => {
    const file = storeFileFor(t);
    const database = openDatabase(file);
    database.exec('pragma user_version = 99');
    database.close();
    assert.throws(
      () => openDatabase(file),
      (error: Error) => {
        assert.match(error.message, /cannot use its store/);
        assert.match(String(error.cause), /version 99/);
        return true;
      },
    );
  });

  test('gives the same keys to all who ask, even at once', async (t) => {
    const file = storeFileFor(t);
    const [one, other] = [openDatabase(file), openDatabase(file)];
    const [first, second] = await Promise.all([loadKeys(one), loadKeys(other)]);
    assert.deepEqual(first, second);
    assert.deepEqual(await loadKeys(one), first);
    one.close();
    other.close();
  });
});
