import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EndpointRecord } from '@oselya/inventory';
import { endpointOf } from '../src/endpoint.ts';
import { VALID_RECORD } from './support/findings.ts';

function placeOf(more: Partial<EndpointRecord>) {
  const endpoint = endpointOf({ ...VALID_RECORD, exposure: 'private', ...more });
  return endpoint && [endpoint.host, endpoint.port, endpoint.protocol];
}

test('an address without a port means that of its protocol', () => {
  for (const [scheme, port, protocol = scheme] of [
    ['imaps', 993],
    ['smtps', 465],
    ['smtp', 25],
    ['pop', 110, 'pop3'],
    ['rediss', 6379],
    ['ftps', 990],
    ['rtsps', 322],
    ['telnet', 23],
    ['nats', 4222],
    ['coap', 5683],
    ['postgres', 5432, 'postgresql'],
  ] as const) {
    const place = placeOf({ url: `${scheme}://mail.example.test` });
    assert.deepEqual(place, ['mail.example.test', port, protocol]);
  }
  assert.equal(placeOf({ url: 'gopherish://mail.example.test' }), null);
});

test('an address that names no host says nothing, and neither does a blank host', () => {
  const beside = { host: 'gateway', port: 8080, protocol: ' Postgres' };
  const place = ['gateway', 8080, 'postgresql'];
  assert.deepEqual(placeOf({ url: 'gateway:8080', ...beside }), place);
  assert.deepEqual(placeOf({ url: ' ', ...beside }), place);
  assert.deepEqual(placeOf({ host: ' ', domain: 'a.test', port: 1 }), ['a.test', 1, '']);
  assert.equal(placeOf({ url: 'https://{tenant}.example.test/' }), null);
});

test('an international name is asked for in ASCII, wherever it stands', () => {
  const place = ['xn--e1amhm6e.xn--j1amh', 443, 'https'];
  assert.deepEqual(placeOf({ domain: 'оселя.укр', port: 443, protocol: 'https' }), place);
  assert.deepEqual(placeOf({ host: 'Оселя.укр', port: 443, protocol: 'https' }), place);
  assert.deepEqual(placeOf({ url: 'https://оселя.укр/' }), place);
  assert.equal(placeOf({ host: 'оселя укр', port: 443 }), null);
});
