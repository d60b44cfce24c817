import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfigError } from '@oselya/kit';
import { readConfig } from '../src/config.ts';

function getInvalidVariables(env: Record<string, string>): readonly string[] {
  try {
    readConfig(env);
  } catch (error) {
    assert.ok(error instanceof ConfigError);
    return [...error.problems.keys()];
  }
  return [];
}

test('The default configuration is local, without API keys and with the mock model', () => {
  const config = readConfig({});
  assert.partialDeepStrictEqual(config, {
    COLLECTOR_HOST: '127.0.0.1',
    COLLECTOR_PORT: 8001,
    COLLECTOR_WORKER: true,
    COLLECTOR_LEASE_SECONDS: 60,
    MODEL_MODE: 'mock',
    EMBEDDING_DIMENSIONS: 384,
    COLLECTOR_INGEST_PER_MINUTE: 60,
    COLLECTOR_FULLTEXT_PER_MINUTE: 120,
    COLLECTOR_NEW_SOURCES_PER_DAY: 10_000,
  });
  assert.deepEqual([config.COLLECTOR_AUTH, config.SSRF_ALLOW], [undefined, []]);
  assert.ok(
    readConfig({ COLLECTOR_HOST: '0.0.0.0' }, { servesApi: false }),
    'a worker listens nowhere',
  );
});

test('A host beyond the loopback requires an explicit choice about API keys', () => {
  for (const host of ['0.0.0.0', '::', '192.0.2.7', 'collector.example', '127.example']) {
    assert.deepEqual(getInvalidVariables({ COLLECTOR_HOST: host }), ['COLLECTOR_AUTH'], host);
    assert.equal(readConfig({ COLLECTOR_HOST: host, COLLECTOR_AUTH: 'off' }).COLLECTOR_AUTH, 'off');
  }
  for (const host of ['127.0.0.1', '127.8.8.8', '::1', 'localhost']) {
    assert.deepEqual(getInvalidVariables({ COLLECTOR_HOST: host }), [], host);
  }
});

test('The error names every invalid variable and shows no value', () => {
  assert.throws(
    () => readConfig({ MODEL_BASE_URL: 'token-4711.example' }),
    (error: Error) => !error.message.includes('4711'),
  );
  assert.deepEqual(
    getInvalidVariables({
      COLLECTOR_AUTH: 'sometimes',
      COLLECTOR_WORKERS: '0',
      COLLECTOR_LEASE_SECONDS: '0',
      IMAGE_STORE: 'tape',
      EMBEDDING_DIMENSIONS: '4096',
      MODEL_BASE_URL: 'model.example',
      SSRF_ALLOW: '10.0.0.0/8,10.0.0.0/33',
    }),
    [
      'COLLECTOR_AUTH',
      'COLLECTOR_WORKERS',
      'COLLECTOR_LEASE_SECONDS',
      'MODEL_BASE_URL',
      'EMBEDDING_DIMENSIONS',
      'IMAGE_STORE',
      'SSRF_ALLOW',
    ],
  );
});

test('The allowed image addresses are ranges, addresses and hosts', () => {
  const allowedEntries = ['127.0.0.0/31', '10.1.2.3', 'fd00::/8', '::1', 'media.internal'];
  assert.deepEqual(
    readConfig({ SSRF_ALLOW: allowedEntries.join(', ') }).SSRF_ALLOW,
    allowedEntries,
  );
  for (const entry of ['10.0.0.0/33', 'http://a.test', '10.0.0.0/', 'a b', '::/129']) {
    assert.deepEqual(getInvalidVariables({ SSRF_ALLOW: entry }), ['SSRF_ALLOW'], entry);
    assert.throws(
      () => readConfig({ SSRF_ALLOW: entry }),
      (error: Error) => !error.message.includes(entry),
    );
  }
});

test('A bucket requires its names and keys, and the error names each missing one', () => {
  const complete = {
    IMAGE_STORE: 's3',
    S3_REGION: 'eu-central-1',
    S3_BUCKET: 'images',
    S3_ACCESS_KEY_ID: 'id',
    S3_SECRET_ACCESS_KEY: 'secret',
  };
  assert.equal(readConfig(complete).S3_ENDPOINT, undefined);
  assert.equal(readConfig(complete).S3_FORCE_PATH_STYLE, false);
  assert.deepEqual(getInvalidVariables({ IMAGE_STORE: 's3', S3_ENDPOINT: 'minio.example:9000' }), [
    'S3_ENDPOINT',
    'S3_REGION',
    'S3_BUCKET',
    'S3_ACCESS_KEY_ID',
    'S3_SECRET_ACCESS_KEY',
  ]);
});
