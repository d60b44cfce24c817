import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from 'typebox';
import {
  commonConfig,
  ConfigError,
  flag,
  integer,
  list,
  loadConfig,
  secret,
  text,
} from '../src/index.ts';

const schema = Type.Object({
  ...commonConfig,
  PORT: integer({ default: 8000, min: 0, max: 65_535 }),
  SECURE: flag(false),
  NAME: text('nobody'),
  KEYS: list(),
  TOKEN: secret(),
  NEEDED: Type.String({ minLength: 3, description: 'must be set to a name of at least 3 letters' }),
});

test('defaults fill what is not set, and an empty variable is not set', () => {
  assert.deepEqual(loadConfig(schema, { NEEDED: 'abc', PORT: '', SECURE: ' ' }), {
    DATA_DIR: 'var',
    LOG_LEVEL: 'info',
    PORT: 8000,
    SECURE: false,
    NAME: 'nobody',
    KEYS: [],
    TOKEN: '',
    NEEDED: 'abc',
  });
});

test('values are read as their types', () => {
  const config = loadConfig(schema, {
    NEEDED: 'abc',
    PORT: '9001',
    SECURE: 'Yes',
    KEYS: 'a, b,,c',
    DATABASE_URL: 'postgresql://localhost/x',
  });
  assert.equal(config.PORT, 9001);
  assert.equal(config.SECURE, true);
  assert.deepEqual(config.KEYS, ['a', 'b', 'c']);
});

test('every bad value is reported at once, by name and rule, never by value', () => {
  const bad = {
    PORT: '70000s3cret',
    SECURE: 'm4ybe',
    LOG_LEVEL: 'l0ud',
    DATABASE_URL: 'mysql://root:hunter2@x',
  };
  assert.throws(
    () => loadConfig(schema, bad),
    (error: unknown) => {
      assert.ok(error instanceof ConfigError);
      assert.deepEqual(error.variables, ['DATABASE_URL', 'LOG_LEVEL', 'PORT', 'SECURE', 'NEEDED']);
      for (const value of Object.values(bad)) assert.ok(!error.message.includes(value));
      assert.match(error.message, /PORT must be a whole number, 0 to 65535/);
      assert.match(error.message, /LOG_LEVEL must be one of: trace, /);
      assert.match(error.message, /NEEDED is not set: it must be set to a name/);
      return true;
    },
  );
});

test('a default is not shared between configurations', () => {
  const one = loadConfig(schema, { NEEDED: 'abc' });
  one.KEYS.push('mine');
  assert.deepEqual(loadConfig(schema, { NEEDED: 'abc' }).KEYS, []);
});
