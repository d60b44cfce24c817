import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from 'typebox';
import {
  commonConfig,
  ConfigError,
  type ConfigRule,
  flag,
  integer,
  list,
  loadConfig,
  loadConfigs,
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

test('unset and empty variables get their defaults', () => {
  assert.deepEqual(loadConfig(schema, { NEEDED: 'abc', PORT: '', SECURE: ' ' }), {
    DATA_DIR: 'var',
    LOG_LEVEL: 'info',
    METRICS_TOKEN: '',
    PORT: 8000,
    SECURE: false,
    NAME: 'nobody',
    KEYS: [],
    TOKEN: '',
    NEEDED: 'abc',
  });
});

test('values are read by type', () => {
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

test('booleans and choices ignore case', () => {
  for (const [level, secure] of [
    ['warn', 'true'],
    ['Warn', 'True'],
    ['WARN', 'TRUE'],
  ] as const) {
    const config = loadConfig(schema, { NEEDED: 'abc', LOG_LEVEL: level, SECURE: secure });
    assert.equal(config.LOG_LEVEL, 'warn');
    assert.equal(config.SECURE, true);
  }
  assert.equal(loadConfig(schema, { NEEDED: 'Abc', SECURE: 'FALSE' }).SECURE, false);
  assert.equal(loadConfig(schema, { NEEDED: 'Abc' }).NEEDED, 'Abc', 'other texts stay as they are');
});

test('all bad values are reported together, without their values', () => {
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
      assert.match(error.message, /DATABASE_URL must begin with postgres:\/\/ or postgresql:\/\//);
      assert.match(error.message, /NEEDED is not set: it must be set to a name/);
      return true;
    },
  );
});

const bounds = Type.Object({
  LOW: integer({ default: 1, max: 100 }),
  HIGH: integer({ default: 9, max: 100 }),
  OTHER: integer({ default: 0, max: 100 }),
});
const ordered: ConfigRule<typeof bounds> = ({ LOW, HIGH }) =>
  LOW !== undefined && HIGH !== undefined && LOW > HIGH ? [['HIGH', 'must not be below LOW']] : [];

function broken(load: () => unknown): [string, string][] {
  try {
    load();
  } catch (error) {
    assert.ok(error instanceof ConfigError);
    assert.deepEqual(error.variables, [...error.problems.keys()]);
    return [...error.problems];
  }
  return [];
}

test('a rule over several variables is reported with the bad values', () => {
  assert.deepEqual(
    broken(() => loadConfig(bounds, { LOW: '10', OTHER: 'x' }, [ordered])),
    [
      ['OTHER', 'must be a whole number, 0 to 100'],
      ['HIGH', 'must not be below LOW'],
    ],
  );
  assert.deepEqual(loadConfig(bounds, { LOW: '2' }, [ordered]), { LOW: 2, HIGH: 9, OTHER: 0 });
});

test('configurations read together give one error', () => {
  const bad = { LOW: '1000', PORT: 'x', NEEDED: 'abc', LOG_LEVEL: 'loud' };
  const problems = broken(() =>
    loadConfigs(
      () => loadConfig(bounds, bad),
      () => loadConfig(schema, bad),
      () => loadConfig(Type.Object(commonConfig), bad),
    ),
  );
  assert.deepEqual(
    problems.map(([variable]) => variable),
    ['LOW', 'LOG_LEVEL', 'PORT'],
  );
  const [one, two] = loadConfigs(
    () => loadConfig(bounds, {}),
    () => loadConfig(schema, { NEEDED: 'abc' }),
  );
  assert.equal(one.HIGH + two.PORT, 8009);
});
